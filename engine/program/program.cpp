#include "program/program.hpp"

namespace paceline {

void Program::clear() {
  instructions.clear();
  inputs.clear();
  stage_ends.clear();
  track_ends.clear();
  slots.clear();
  slot_bytes = 0;
  codec = Codec::none;
  in_flight = 1;
  fold = {DType::uint8, Op::sum};
  unasked = false;
}

void Program::end_stage() {
  const auto end = static_cast<std::uint32_t>(instructions.size());
  if (end > first_instruction(stage_ends.size())) stage_ends.push_back(end);
}

void Program::end_track() {
  end_stage();
  const auto end = static_cast<std::uint32_t>(stage_ends.size());
  if (end > first_stage(track_ends.size())) track_ends.push_back(end);
}

}  // namespace paceline
