#include "shared/shared_operation.hpp"

#include <sched.h>

#include <array>

#include "execute/group.hpp"

namespace paceline {

void SharedOperation::begin() {
  lane_ = group->lane.get();
  turn_ = lane_->next_turn();
  step();
}

void SharedOperation::clear() {
  lane_ = nullptr;
  phase_ = Phase::entering;
  next_ = 0;
}

bool SharedOperation::step() {
  if (trouble_) return false;
  bool moved = false;
  if (phase_ == Phase::entering) {
    if (!enter()) return false;
    phase_ = Phase::gathering;
    moved = true;
  }
  if (phase_ == Phase::gathering) {
    if (!gather()) return moved;
    phase_ = Phase::working;
    moved = true;
  }
  if (phase_ == Phase::working) {
    const Result result = work();
    if (result == Result::complete) phase_ = Phase::complete;
    moved |= result != Result::waits;
  }
  return moved;
}

// True once everybody is past what this turn overwrites, and this rank has begun it.
bool SharedOperation::enter() {
  if (!lane_->ready() || !lane_->is_next(turn_)) return false;
  for (std::uint64_t turn = lane_->agreed() + 1; turn <= entry(); ++turn) {
    for (int other = 0; other < lane_->size(); ++other)
      if (other != lane_->rank() && (!lane_->begun(other, turn) || !agree(other, turn))) return false;
    lane_->agree(turn);
  }
  Cell& own = lane_->cell(lane_->rank(), turn_);
  own.what = what;
  own.sequence = sequence;
  own.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  give(own);
  if (!lane_->begin(turn_, awaited())) return true;
  // Some need nobody, and may need nothing afterwards either: the last to begin compares with all, so that ranks that
  // disagree are found in this very turn.
  for (; next_ < lane_->size(); ++next_)
    if (next_ != lane_->rank() && !agree(next_, turn_)) return false;
  return true;
}

std::uint64_t SharedOperation::entry() const {
  const std::uint64_t slots = runs_ahead() ? kSmallSlots : kMediumSlots;
  return turn_ < slots ? 0 : turn_ - slots + 1;
}

bool SharedOperation::gather() {
  for (; next_ < lane_->size(); ++next_) {
    if (next_ == lane_->rank() || !needs(next_)) continue;
    if (!lane_->begun(next_, turn_) || !agree(next_, turn_)) return false;
  }
  return true;
}

bool SharedOperation::agree(int rank, std::uint64_t turn) {
  const Cell& mine = lane_->cell(lane_->rank(), turn);
  const Cell& theirs = lane_->cell(rank, turn);
  if (mine.what == theirs.what) return true;
  trouble_ = {ErrorKind::mismatch, group->disagreement(mine.what, mine.sequence, theirs.what, lane_->member(rank))};
  return false;
}

std::vector<int> SharedOperation::absent_from(std::uint64_t turn) const {
  std::vector<int> ranks;
  for (int other = 0; other < lane_->size(); ++other)
    if (other != lane_->rank() && (!lane_->knows(other) || !lane_->begun(other, turn)))
      ranks.push_back(lane_->member(other));
  return ranks;
}

// Who holds this rank up in an earlier turn comes first: it may hold up those, too, who have yet to begin this one.
std::vector<int> SharedOperation::absent() const {
  std::vector<int> ranks;
  if (phase_ == Phase::entering) ranks = absent_from(entry());
  return ranks.empty() ? absent_from(turn_) : ranks;
}

std::vector<int> SharedOperation::missing() const {
  if (phase_ == Phase::working) return behind();
  std::vector<int> ranks = absent();
  if (phase_ == Phase::gathering) std::erase_if(ranks, [this](int rank) { return !needs(lane_->place_of(rank)); });
  return ranks;
}

// The latest turn in which all ranks are known to have said where they run; 0: none, as while earlier turns wait for
// ranks that this one has not even met.
std::uint64_t SharedOperation::last_whole_turn() const {
  if (phase_ == Phase::working) return turn_;
  return lane_->is_next(turn_) ? turn_ - 1 : 0;
}

int SharedOperation::neighbour() const {
  const auto last_turn = last_whole_turn();
  if (last_turn == 0) return -1;
  const int cpu = ::sched_getcpu();
  const auto here = [&](int rank) {
    return lane_->cell(rank, last_turn).cpu.load(std::memory_order_relaxed) == cpu && rank != lane_->rank();
  };
  if (phase_ == Phase::gathering) return here(next_) ? lane_->member(next_) : -1;
  for (int other = 0; other < lane_->size(); ++other)
    if (here(other)) return lane_->member(other);
  return -1;
}

bool SharedOperation::crowded(const cpu_set_t& cpus) const {
  const auto last_turn = last_whole_turn();
  const int here = ::sched_getcpu();
  if (last_turn == 0 || here < 0 || here >= CPU_SETSIZE) return false;
  std::array<std::uint16_t, CPU_SETSIZE> ranks{};
  for (int place = 0; place < lane_->size(); ++place) {
    const bool own = place == lane_->rank();
    const int cpu = own ? here : lane_->cell(place, last_turn).cpu.load(std::memory_order_relaxed);
    if (cpu < 0 || cpu >= CPU_SETSIZE) continue;
    if (cpu == here && place > lane_->rank()) return false;
    ++ranks[static_cast<std::size_t>(cpu)];
  }
  const int most = ranks[static_cast<std::size_t>(here)] - 2;
  for (std::size_t cpu = 0; most >= 0 && cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &cpus) && ranks[cpu] <= most) return true;
  return false;
}

bool SharedOperation::has_work() const {
  switch (phase_) {
    case Phase::entering: return lane_->ready() && lane_->is_next(turn_) && lane_->all_begun(entry());
    case Phase::gathering: return missing().empty();
    default: return true;
  }
}

bool SharedOperation::read_from(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) {
  const int failure = lane_->read(rank, address, to, bytes);
  if (failure == 0) return true;
  trouble_ = group->unreadable(lane_->member(rank), failure);
  return false;
}

}  // namespace paceline
