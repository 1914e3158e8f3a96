#include "execute/one_shot.hpp"

#include <cstring>

#include "kernel/reduce.hpp"

namespace paceline {

void OneShot::clear() {
  SharedOperation::clear();
  given = nullptr;
  given_bytes = 0;
  factor = 1;
  take = Take::nothing;
  to = nullptr;
  offset = bytes = 0;
  everybody = true;
}

void OneShot::give(Cell& own) {
  if (given == nullptr || given_bytes == 0) return;
  std::byte* place = given_bytes <= sizeof own.small ? own.small : lane_->own().slot(turn_, runs_ahead());
  if (factor != 1) {
    kernels().scale(what.dtype, place, given, given_bytes / size_of(what.dtype), factor);
  } else {
    std::memcpy(place, given, given_bytes);
  }
}

const std::byte* OneShot::part_of(int rank) const {
  if (given_bytes <= sizeof Cell::small) return lane_->cell(rank, turn_).small;
  return lane_->of(rank).slot(turn_, runs_ahead());
}

OneShot::Result OneShot::work() {
  if (bytes == 0) return Result::complete;
  switch (take) {
    case Take::nothing: break;
    case Take::combined:
      inputs_.resize(static_cast<std::size_t>(lane_->size()));
      for (int rank = 0; rank < lane_->size(); ++rank) inputs_[static_cast<std::size_t>(rank)] = part_of(rank) + offset;
      kernels().reduce(fold, to, inputs_.data(), inputs_.size(), bytes / size_of(fold.dtype));
      break;
    case Take::everything:
      for (int rank = 0; rank < lane_->size(); ++rank)
        std::memcpy(to + static_cast<std::size_t>(rank) * bytes, part_of(rank), bytes);
      break;
    case Take::roots: std::memcpy(to, part_of(what.root), bytes); break;
  }
  return Result::complete;
}

}  // namespace paceline
