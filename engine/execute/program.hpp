// A plan compiled for one rank and one buffer: stages of actions. All actions of a stage are under way together; a
// stage begins when the one before it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/types.hpp"

namespace paceline {

struct Input {
  int peer = -1;  // group rank, or -1: `own`
  const std::byte* own = nullptr;
  std::int32_t tag = 0;
};

struct Action {
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
};

struct Program {
  std::vector<Action> actions;
  std::vector<Input> inputs;
  std::vector<std::uint32_t> stage_ends;
  Fold fold{DType::uint8, Op::sum};
  // A combine writes where a send of its stage reads: it waits until the send has been copied.
  bool combine_after_sends = false;

  void clear();
  void end_stage();  // empty stages vanish
};

}  // namespace paceline
