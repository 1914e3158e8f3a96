// A board comes to rest at one place of its log, and goes on from there.
#include <utility>

#include "policy/board.hpp"

namespace paceline {

void Board::rest(std::vector<std::uint64_t> words) {
  for (const Words& entry : rest_entries(words, memory_.longest(), static_cast<std::uint32_t>(rank_))) order(entry);
  settle();
}

void Board::apply_rest(std::span<const std::uint64_t> entry) {
  if (!take_rest(resting_, entry)) return;
  Words words = std::exchange(resting_, {});
  if (joins_ > 0) {
    if (rank_ == 0) rested_ = Rest{true};
  } else if (may_rest()) {
    come_to_rest();
    came_to_rest();
    rested_ = Rest{false, std::move(words)};
  } else {
    could_not_rest(words);
  }
}

// Requests that are ready everywhere go out. All ranks forget the marks of all others. Marks that are written later
// come too late, because they belong to a round that is over, or to a join before this rest. The same holds for entries
// that are still to be read, written or sent.
void Board::come_to_rest() {
  at_rest_ = true;
  ++rests_;
  cut();
  back_ = window_.take_back();
  for (auto& [name, request] : unplaced_) back_.push_back(std::move(request));
  unplaced_.clear();
  for (RequestPtr& request : evicted_) back_.push_back(std::move(request));
  evicted_.clear();
  for (std::uint32_t slot = 0; slot < dictionary_.size(); ++slot)
    if (dictionary_[slot].mine) back_.push_back(dictionary_[slot].mine);
  dictionary_.finish_all();
  under_way_ = 0;
  holding_.forget();
  joining_ = growing_ = false;
  inbox_.clear();
}

}  // namespace paceline
