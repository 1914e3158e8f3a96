// The header of every message, the same over shared memory and over a socket.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "types/collective.hpp"

namespace paceline {

enum class Frame : std::uint8_t {
  eager,     // the payload follows
  offer,     // the payload waits at the sender; over shared memory its address follows
  grant,     // "send what you offered as `id`", to the sender of a streamed offer
  stream,    // a piece of the offered payload `id`
  ack,       // "I have read what you offered as `id`"
  hello,     // "my part of the group's segment lies here", to the other ranks of a machine
  status,    // "I am still in this operation", sent by a rank that has waited long
  abort,     // the group has failed; the reason follows
  goodbye,   // the peer leaves in good order; the first error that it knew of follows, if there was one
  note,      // a message for the group's coordinator follows
  line,      // "my program is at this line", from a rank with nothing under way to one that may wait for it
  question,  // of this rank's program to that of the peer; `id` is its number
  answer,    // of this rank's program to the question `id` of the peer's
  refusal,   // "my call of this number has raised before it began"; the reason follows
  inquiry,   // "what do you wait for?", from a rank that has waited long
  waits,     // what this rank waits for, see WaitReport; the answer to an inquiry
  time,      // "this left at `id` on my clock", see PeerClock; `count` is what else it tells
};

// The tag of a group's goodbye if whatever still needs the rank has failed, or knows that it can do without.
inline constexpr std::int32_t kNothingNeeded = 1;

struct Header {
  std::uint64_t channel = 0;  // the group
  std::uint64_t length = 0;   // bytes of the message
  std::uint64_t count = 0;
  std::uint64_t id = 0;        // the number of an offer at its sender
  std::uint32_t sequence = 0;  // the number of the collective in its group
  std::int32_t tag = 0;        // the number of the message in a collective between two ranks; or the user's tag
  std::int32_t root = -1;
  Frame frame = Frame::eager;
  Collective collective = Collective::barrier;
  DType dtype = DType::uint8;
  Op op : 4 = Op::sum;  // these two share a byte: 8 bytes of payload still fit beside a header in shared memory
  Codec codec : 4 = Codec::none;

  Header() = default;  // GCC 12 cannot make an aggregate with such initializers from {}
  Fingerprint fingerprint() const { return {count, root, collective, dtype, op, codec}; }
};
static_assert(sizeof(Header) == 48 && std::is_trivially_copyable_v<Header>);

// Returns whether every field of a header that came from outside is in range.
bool is_sane(const Header& header);

}  // namespace paceline
