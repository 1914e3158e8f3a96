// Ranks of a board that have joined count as ready until all have joined.
#include <limits>

#include "policy/board.hpp"

namespace paceline {

namespace {

// The word of a rank that has joined holds the epoch, from 1, and a position in the log.
constexpr unsigned kPositionBits = 40;

}  // namespace

void Board::join(double) {
  if (at_rest_) return;
  joining_ = true;
  order({{pack({EntryKind::join, static_cast<std::uint8_t>(rests_), 1, static_cast<std::uint32_t>(rank_)})}});
  settle();
}

bool Board::covers(std::uint64_t joined, std::uint64_t position) const {
  return joined >> kPositionBits == epoch_ + 1 && (joined & ((std::uint64_t{1} << kPositionBits) - 1)) > position;
}

void Board::publish() {
  if (!joining_ || joins_ == 0 || holds_requests()) return;
  if (!settled_ && under_way_ == 0) {
    settled_ = true;
    order({{pack({EntryKind::settle, 0, 1, static_cast<std::uint32_t>(rank_)})}});
  }
  if (!unplaced_.empty() || !evicted_.empty() || (published_ && fresh_.empty())) return;
  memory_.join(local_, (epoch_ + 1) << kPositionBits | position_);
  if (published_)
    for (const std::uint32_t slot : fresh_) check(slot);
  else
    for (std::uint32_t slot = 0; slot < dictionary_.size(); ++slot) check(slot);
  published_ = true;
  fresh_.clear();
  if (!alone()) tell_full();
}

// Once all ranks of this machine have joined, no rank marks anything here. Rank 0 learns that, and what is marked
// before it: it takes everything else for not submitted.
void Board::tell_full() {
  std::uint64_t position = std::numeric_limits<std::uint64_t>::max();
  for (int local = 0; local < static_cast<int>(locals_.size()); ++local) {
    const std::uint64_t joined = memory_.joined(local);
    if (joined >> kPositionBits != epoch_ + 1) return;
    position = std::min(position, joined & ((std::uint64_t{1} << kPositionBits) - 1));
  }
  if (position <= told_full_) return;
  told_full_ = position;
  for (std::uint32_t slot = 0; slot < dictionary_.size(); ++slot) {
    Report report;
    if (dictionary_[slot].defined_at >= position || !gather(slot, report)) continue;
    written_.clear();
    put_report(written_, report);
    order(written_);
  }
  order({{pack({EntryKind::full, 0, 3, 0}), position, epoch_}});
}

// All requests are over, and new rounds begin: a rank that has not read so far yet still counts ranks that have joined
// as ready, and must not find what others submit from now on complete.
void Board::all_joined(int last) {
  cut();
  dictionary_.finish_all();
  actions_.emplace_back(Joined{last});
  ++epoch_;
  joining_ = settled_ = published_ = false;
  fresh_.clear();
  told_full_ = 0;
  joins_ = settles_ = 0;
  all_have_joined();
}

}  // namespace paceline
