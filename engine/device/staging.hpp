// All-reduces of device memory on the host: the stream copies chunks to pinned memory that the ranks of this machine
// share; there they are combined by whatever plan the group has; and the stream copies them back. While one chunk is
// combined, another one travels.
//
// The stream is given all copies at once. It writes how many chunks have come, and waits for those that go back; see
// Control. An operation of the engine does the rest.
#pragma once

#include "device/control.hpp"
#include "device/streams.hpp"
#include "progress/collectives.hpp"

namespace paceline::device {

struct Call {
  Address data = 0;
  std::size_t count = 0;
  DType dtype = DType::uint8;
  Op op = Op::sum;
  double factor = 1;
  StreamHandle stream = nullptr;  // the caller's, after whose work the collective comes

  std::size_t bytes() const { return count * size_of(dtype); }
};

class Staging {
 public:
  // slot: bytes of a chunk. Throws DriverError. The context of the device must be current, and to destroy it, too.
  Staging(Engine& engine, Group& hosts, const Driver& driver, Control& control, std::size_t slot);

  // The chunks of a call, by their numbers among those of all calls: from `next` to `end` they are to be combined.
  struct Chunks {
    Call call;
    std::size_t elements = 0;  // of each but the last
    std::uint32_t first = 0;
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    Handle combining;
  };
  // The stream copies them to the host and back.
  Chunks plan(const Call& call);
  void hand_over(const Chunks& chunks, StreamHandle stream);

  // Does what the host can do now, by the loop, which holds the engine's lock. Returns whether anything moved; sets
  // `trouble` if a collective has failed. Throws Failure if it cannot start.
  bool advance(Chunks& chunks, Error& trouble);
  bool has_work(const Chunks& chunks) const;
  // Lets the stream go on.
  void release(const Chunks& chunks);

 private:
  static constexpr std::uint32_t kSlots = 2;

  std::byte* memory_of(std::uint32_t chunk) const { return pinned_.data() + chunk % kSlots * slot_; }
  std::size_t count_of(const Chunks& chunks, std::uint32_t chunk) const;
  Address place_of(const Chunks& chunks, std::uint32_t chunk) const;
  void fetch(const Chunks& chunks, std::uint32_t chunk, StreamHandle stream);

  Engine& engine_;
  Group& hosts_;
  const Driver& driver_;
  Control& control_;
  const std::size_t slot_;
  Pinned pinned_;
  std::uint32_t planned_ = 0;  // chunks of all calls so far
};

}  // namespace paceline::device
