#include "message/message_operation.hpp"

#include <algorithm>

#include "execute/group.hpp"

namespace paceline {

void MessageOperation::clear() {
  program.clear();
  for (Track& track : tracks_) track.forget();
  oldest_ = next_ = 0;
}

void MessageOperation::begin() {
  context_.begin(*this, workspace_);
  context_.program = &program;
  context_.inner_fold = program.fold;
  context_.inner_fold.divisor = 1;
  if (slots_.size() < program.in_flight * program.slot_bytes) slots_.resize(program.in_flight * program.slot_bytes);
  context_.slot_lengths.resize(program.slots.size());
  if (tracks_.size() < program.in_flight) tracks_.resize(program.in_flight);
  begin_tracks();
}

void MessageOperation::begin_tracks() {
  const std::size_t end = std::min(program.track_ends.size(), oldest_ + program.in_flight);
  while (next_ < end) {
    track(next_).begin(context_, next_, slots_.data() + next_ % program.in_flight * program.slot_bytes);
    ++next_;
  }
  if (context_.trouble && !trouble_) trouble_ = context_.trouble;
}

// Older tracks come to a link first.
bool MessageOperation::step() {
  bool moved = false;
  for (std::size_t i = oldest_; i < next_ && !context_.trouble; ++i) moved |= track(i).step();
  while (oldest_ < next_ && track(oldest_).complete()) {
    ++oldest_;
    moved = true;
  }
  begin_tracks();
  return moved;
}

bool MessageOperation::has_work() const {
  if (complete()) return true;
  // A track that only has sends left has work only if it is the oldest one, because it then makes room.
  for (std::size_t i = oldest_; i < next_; ++i)
    if (track(i).has_work() && (i == oldest_ || !track(i).complete())) return true;
  return false;
}

// A younger track may wait, because it makes no room.
bool MessageOperation::awaits_acknowledgements() const {
  if (oldest_ < next_ && track(oldest_).ended()) return true;
  for (std::size_t i = oldest_; i < next_; ++i)
    if (track(i).combines_after_sends()) return true;
  return false;
}

std::vector<int> MessageOperation::missing() const {
  std::vector<int> ranks;
  for (std::size_t i = oldest_; i < next_; ++i) track(i).missing(ranks);
  std::ranges::sort(ranks);
  const auto again = std::ranges::unique(ranks);
  ranks.erase(again.begin(), again.end());
  std::erase(ranks, -1);
  return ranks;
}

std::vector<int> MessageOperation::absent() const { return group->unheard(sequence); }

void MessageOperation::let_go(const Error&) {
  for (std::size_t i = oldest_; i < next_; ++i) track(i).let_go();
}

}  // namespace paceline
