// A plan compiled for one rank and one buffer: tracks, each a sequence of stages of instructions. All instructions of a
// stage are under way together, and a stage begins when the one before it is complete. Tracks touch different parts of
// the buffer and know nothing of each other: several may be under way at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/types.hpp"

namespace paceline {

struct Input {
  int peer = -1;  // a group rank, or -1 for `own`
  const std::byte* own = nullptr;
  std::int32_t tag = 0;
};

struct Instruction {
  enum class Kind : std::uint8_t { copy, scale, divide, send, receive, combine };
  Kind kind;
  int peer = -1;
  std::int32_t tag = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  double factor = 1;
  std::uint32_t first_input = 0;
  std::uint32_t inputs = 0;
  bool after_sends = false;  // it writes where sends of earlier stages read, and waits until those are done
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Input> inputs;
  std::vector<std::uint32_t> stage_ends;  // indices of `instructions`
  std::vector<std::uint32_t> track_ends;  // indices of `stage_ends`
  std::size_t in_flight = 1;              // tracks at once; another one begins when the oldest is complete
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
