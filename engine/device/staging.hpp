// Collectives of device memory through the host: the stream copies chunks to pinned memory that the ranks of this
// machine share; there the engine's own collective serves them, by whatever plan the group has; and the stream copies
// the result back. While one chunk is served, another one travels.
//
// A chunk has as many elements of each block. Where the ranks of each machine have combined what they bring along, it
// has what this rank then has of these elements, and the host does what is left to do between machines. Where it is
// encoded between machines, the host does that: what the ranks of a machine bring along is combined as it is, and only
// then encoded, once. What a rank has lost so far travels along and comes back. The stream is given all copies at once.
// It writes how many chunks have come, and waits for those that go back; see Control. An operation of the engine does
// the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/call.hpp"
#include "device/control.hpp"
#include "device/streams.hpp"
#include "program/machine_first.hpp"
#include "progress/collectives.hpp"

namespace paceline::device {

class Staging {
 public:
  // slot: bytes of a chunk. Throws DriverError. The context of the device must be current, and to destroy it, too.
  Staging(Engine& engine, Group& hosts, const Driver& driver, Control& control, std::size_t slot);

  // The chunks of a call. They have numbers among those of all calls of this rank, from `first` on. The last number,
  // before `end`, stands for no chunk: it is served when all chunks of all ranks are.
  struct Chunks {
    Call call;
    std::size_t elements = 0;  // of a block, in each chunk but the last
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    std::size_t longest = 0;  // elements of a block, of those of all ranks; known when they have met
    std::unique_ptr<const MachineParts> parts = nullptr;  // of an all-reduce, where machines have combined them before
    std::uint32_t served = 0;                             // chunks, so far
    Handle serving = nullptr;

    std::uint32_t own() const { return end - 1 - first; }
    bool over() const { return served * elements >= longest; }
  };
  // longest: elements of the longest block that this rank gives or takes.
  Chunks plan(const Call& call, std::size_t longest);
  // The same where machines come first: `plan` is that of all ranks.
  Chunks plan(const Call& call, const MachineFirst& plan);
  // The stream copies them to the host and back.
  void hand_over(const Chunks& chunks, StreamHandle stream);

  // Does what the host can do now, by the loop, which holds the engine's lock. Returns whether anything moved; sets
  // `trouble` if a collective has failed. Throws Failure if it cannot start.
  bool advance(Chunks& chunks, Error& trouble);
  bool has_work(const Chunks& chunks) const;
  // Lets the stream go on.
  void release(const Chunks& chunks);

 private:
  static constexpr std::uint32_t kSlots = 2;

  // A part of a block that a chunk holds, on the device and in pinned memory.
  struct Piece {
    Address there;
    std::byte* here;
    std::size_t count;  // elements
  };
  std::byte* input_of(std::uint32_t chunk) const { return pinned_.data() + chunk % kSlots * slot_; }
  std::byte* residual_of(std::uint32_t chunk) const { return input_of(chunk) + slot_ / 2; }
  std::byte* output_of(const Chunks& chunks, std::uint32_t chunk) const;
  std::vector<Piece> pieces(const Chunks& chunks, std::uint32_t index, const std::vector<Block>& blocks,
                            std::byte* memory) const;
  void fetch(const Chunks& chunks, std::uint32_t index, StreamHandle stream);
  void bring_back(const Chunks& chunks, std::uint32_t index, StreamHandle stream);
  void copy_here(const std::vector<Piece>& pieces, const Chunks& chunks, StreamHandle stream) const;
  void copy_there(const std::vector<Piece>& pieces, const Chunks& chunks, StreamHandle stream) const;
  Handle serve(const Chunks& chunks) const;

  Engine& engine_;
  Group& hosts_;
  const Driver& driver_;
  Control& control_;
  const std::size_t slot_;
  Pinned pinned_;              // slots for what is brought along, and behind them for what comes
  std::uint32_t planned_ = 0;  // numbers of all calls so far
};

}  // namespace paceline::device
