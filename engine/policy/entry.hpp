// Entries of the board's log, and of the messages between boards. An entry is a row of words, the first of which says
// what it is and how many words it has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

using Words = std::vector<std::uint64_t>;

enum class EntryKind : std::uint8_t {
  define = 1,  // a name and a description of it, as text
  issue,       // a slot's round is over: all ranks have submitted its request
  fail,        // the same, but the request cannot be carried out: why, as text
  cut,         // the requests issued since the last cut go out now
  join,        // a rank has joined
  settle,      // a rank that has joined has nothing under way
  joined,      // all ranks have joined and have nothing under way
  ready,       // only in messages: a machine's ranks have submitted a slot's request, or have joined
  full,        // only in messages: all ranks of a machine have joined
  start,       // graph: a rank has taken an order
  started,     // graph: all ranks have taken it
  deviate,     // graph: a rank cannot go on in order
  tune,        // from here on batches have at most so many bytes
  rest,        // here the policy comes to rest; a part of the words that go with that
  grow,        // from here on there are so many slots
};

inline constexpr EntryKind kLastKind = EntryKind::grow;

// A flag of `define`: the rank has described the same request before, and its slot went to another one.
inline constexpr std::uint8_t kAgain = 1;

// The first word holds the kind in 8 bits, flags in 8, the number of words of the whole entry in 16, and a number in
// 32, which is that of a slot, a rank or a machine.
struct EntryHead {
  EntryKind kind = EntryKind::cut;
  std::uint8_t flags = 0;
  std::uint16_t words = 1;
  std::uint32_t number = 0;
};

inline std::uint64_t pack(const EntryHead& head) {
  return static_cast<std::uint64_t>(head.kind) | std::uint64_t{head.flags} << 8 | std::uint64_t{head.words} << 16 |
         std::uint64_t{head.number} << 32;
}

inline EntryHead head_of(std::uint64_t word) {
  return {static_cast<EntryKind>(word & 0xff), static_cast<std::uint8_t>(word >> 8),
          static_cast<std::uint16_t>(word >> 16), static_cast<std::uint32_t>(word >> 32)};
}

// Cuts the next entry off `words`. Returns nothing if the rest is not an entry.
std::optional<std::span<const std::uint64_t>> take_entry(std::span<const std::uint64_t>& words);

inline constexpr std::size_t kLongestName = 2048;
inline constexpr std::size_t kLongestText = 4096;
// The words of the longest entry that goes into a log.
inline constexpr std::size_t kLongestEntry = 16 + (kLongestName + kLongestText) / 8;

// Text as words: its length in bytes, then the bytes.
void put_text(Words& words, std::string_view text);
std::optional<std::string> take_text(std::span<const std::uint64_t>& words);

// The description of a request: everything but its bytes and its priority, in which ranks may differ.
void put_request(Words& words, const Request& request);
std::optional<Request> take_request(std::span<const std::uint64_t>& words);

// Writes the words of a rest as entries `rest` of at most `longest` words, each of which carries `number`.
std::vector<Words> rest_entries(std::span<const std::uint64_t> words, std::size_t longest, std::uint32_t number);
// Gathers these entries. Returns true with the last one.
bool take_rest(Words& words, std::span<const std::uint64_t> entry);

// Does the same with entries that were checked when they came in: a Failure (invalid) would be a defect of the policy.
Request read_request(std::span<const std::uint64_t>& words);
std::string read_text(std::span<const std::uint64_t>& words);

// Closes an entry that was begun at `begin` with a head without length.
inline void close_entry(Words& words, std::size_t begin) {
  EntryHead head = head_of(words[begin]);
  head.words = static_cast<std::uint16_t>(words.size() - begin);
  words[begin] = pack(head);
}

}  // namespace paceline
