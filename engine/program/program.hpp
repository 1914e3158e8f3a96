// A plan compiled for one rank and one buffer: tracks, each a sequence of stages of instructions. All instructions of a
// stage are under way together, and a stage begins when the one before it is complete. Tracks touch different parts of
// the buffer and know nothing of each other: several may be under way at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "types/elements.hpp"

namespace paceline {

struct Input {
  int peer = -1;  // a group rank, or -1 for `own`
  const std::byte* own = nullptr;
  std::int32_t tag = 0;
  int slot = -1;  // where it comes as encoded bytes, see EncodedSlot; -1: as it is
};

// Room for encoded bytes, in memory that a track has to itself while it is under way.
struct EncodedSlot {
  std::size_t offset = 0;
  std::size_t capacity = 0;
};

// Encoding is done as its stage begins: `from` into `slot` and, decoded again, to `to` if that is given. What it loses
// it leaves in `residual`, if there is one, which it adds to the values the next time. A send with a slot sends what is
// in that.
struct Instruction {
  enum class Kind : std::uint8_t { copy, scale, divide, encode, send, receive, combine };
  Kind kind;
  int peer = -1;
  std::int32_t tag = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  double factor = 1;
  std::byte* residual = nullptr;
  int slot = -1;
  std::uint32_t first_input = 0;
  std::uint32_t inputs = 0;
  bool after_sends = false;  // it writes where sends of earlier stages read, and waits until those are done
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Input> inputs;
  std::vector<std::uint32_t> stage_ends;  // indices of `instructions`
  std::vector<std::uint32_t> track_ends;  // indices of `stage_ends`
  std::vector<EncodedSlot> slots;
  std::size_t slot_bytes = 0;  // the most that a track needs for its slots
  Codec codec = Codec::none;
  std::size_t in_flight = 1;  // tracks at once; another one begins when the oldest is complete
  Fold fold{DType::uint8, Op::sum};
  // The messages under way at once are few and small enough for every receiver to hold those that it is not ready for.
  bool unasked = false;

  void clear();
  // Empty stages and tracks vanish.
  void end_stage();
  void end_track();

  std::uint32_t first_instruction(std::size_t stage) const { return stage == 0 ? 0 : stage_ends[stage - 1]; }
  std::uint32_t first_stage(std::size_t track) const { return track == 0 ? 0 : track_ends[track - 1]; }
};

}  // namespace paceline
