#include "shared/one_shot.hpp"

#include <cstring>

#include "calibration/handover.hpp"
#include "kernel/reduce.hpp"
#include "memory/overlap.hpp"

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
  root = -1;
}

void OneShot::give(Cell& own) {
  if (given == nullptr || given_bytes == 0) return;
  std::byte* place = own.small;
  if (given_bytes > sizeof own.small) {
    place = segment_->slot(epoch_, given_bytes, runs_ahead());
    own.place = segment_->arena().offset_of(place);
  }
  if (factor != 1) {
    const Numbers parts = parts_of(what.dtype, given_bytes / size_of(what.dtype));
    kernels().scale(parts.dtype, place, given, parts.count, factor);
  } else {
    segment_->hand_over(place, given, given_bytes);
  }
}

const std::byte* OneShot::part_of(int rank) const {
  const Cell& cell = segment_->cell(rank, epoch_);
  if (given_bytes >= calibration::kLeastStreamed) segment_->follow(rank);
  return given_bytes <= sizeof cell.small ? cell.small : segment_->at(rank, cell.place, given_bytes);
}

OneShot::Result OneShot::work() {
  if (bytes == 0) return Result::complete;
  switch (take) {
    case Take::nothing: break;
    case Take::combined:
      inputs_.resize(static_cast<std::size_t>(segment_->size()));
      for (int rank = 0; rank < segment_->size(); ++rank) {
        const std::byte* const part = part_of(rank);
        if (part == nullptr) return refuse(rank);
        inputs_[static_cast<std::size_t>(rank)] = part + offset;
      }
      // The data in the caller's buffer are nearer than those that were just written to the slot.
      if (factor == 1 && given != nullptr && same_or_apart(given + offset, to, bytes))
        inputs_[static_cast<std::size_t>(segment_->rank())] = given + offset;
      kernels().reduce(fold, to, inputs_.data(), inputs_.size(), bytes / size_of(fold.dtype));
      break;
    case Take::everything:
      for (int rank = 0; rank < segment_->size(); ++rank) {
        const std::byte* const part = part_of(rank);
        if (part == nullptr) return refuse(rank);
        kernels().copy(to + static_cast<std::size_t>(rank) * bytes, part, bytes);
      }
      break;
    case Take::roots:
      const std::byte* const part = part_of(root);
      if (part == nullptr) return refuse(root);
      kernels().copy(to, part, bytes);
      break;
  }
  return Result::complete;
}

}  // namespace paceline
