#include "shared/shared_operation.hpp"

#include <sched.h>

#include <array>

#include "execute/group.hpp"

namespace paceline {

void SharedOperation::begin() {
  segment_ = group->segment.get();
  epoch_ = segment_->next_epoch();
  step();
}

void SharedOperation::clear() {
  segment_ = nullptr;
  phase_ = Phase::entering;
  next_ = 0;
  gone_ = -1;
}

bool SharedOperation::step() {
  if (trouble_ || gone_ >= 0) return false;
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
    if (result == Result::moved) return true;
    if (!stands()) {
      look_for_ended();
    } else if (result == Result::complete) {
      phase_ = Phase::complete;
      moved = true;
    }
  }
  return moved;
}

// Returns true once all ranks are past the slot that this epoch overwrites, and this rank has begun it.
bool SharedOperation::enter() {
  if (!segment_->ready() || !segment_->is_next(epoch_)) return false;
  for (std::uint64_t epoch = segment_->agreed() + 1; epoch <= entry(); ++epoch) {
    for (int other = 0; other < segment_->size(); ++other)
      if (other != segment_->rank() && (!met(other, epoch) || !agree(other, epoch))) return false;
    segment_->agree(epoch);
  }
  Cell& own = segment_->cell(segment_->rank(), epoch_);
  own.what = what;
  own.sequence = sequence;
  own.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  give(own);
  if (!segment_->begin(epoch_, awaited())) return true;
  // A rank may need no other rank, now or later. So the last one to begin compares its collective with all others, and
  // a disagreement is found in the epoch in which it occurs.
  for (; next_ < segment_->size(); ++next_)
    if (next_ != segment_->rank() && !agree(next_, epoch_)) return false;
  return true;
}

std::uint64_t SharedOperation::entry() const {
  const std::uint64_t slots = runs_ahead() ? kSmallSlots : kMediumSlots;
  return epoch_ < slots ? 0 : epoch_ - slots + 1;
}

bool SharedOperation::gather() {
  for (; next_ < segment_->size(); ++next_) {
    if (next_ == segment_->rank() || !needs(next_)) continue;
    if (!met(next_, epoch_) || !agree(next_, epoch_)) return false;
  }
  return true;
}

// Returns whether this rank has begun the epoch. If it never will, the operation does not go on: a rank that has failed
// says why, and one that has left said so long ago. In a coordinator's own groups a rank may leave because of another
// one, whom the coordinator names.
bool SharedOperation::met(int rank, std::uint64_t epoch) {
  const Presence presence = segment_->presence(rank, epoch);
  if (presence == Presence::failed) gone_ = rank;
  if (presence == Presence::left && group->use == Group::Use::callers) {
    const int member = segment_->member(rank);
    trouble_ = {ErrorKind::peer_lost, group->name_of(member) + " has left the group",
                group->members[static_cast<std::size_t>(member)].description};
  }
  return presence == Presence::begun;
}

bool SharedOperation::stands() const {
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (rank != segment_->rank() && needs(rank) && !segment_->stands(rank, epoch_)) return false;
  return true;
}

SharedOperation::Result SharedOperation::refuse(int rank) {
  const int member = segment_->member(rank);
  trouble_ = {ErrorKind::peer_lost, group->name_of(member) + " names memory that it does not have",
              group->members[static_cast<std::size_t>(member)].description};
  return Result::moved;
}

void SharedOperation::look_for_ended() {
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (rank != segment_->rank() && needs(rank) && !met(rank, epoch_)) return;
}

bool SharedOperation::agree(int rank, std::uint64_t epoch) {
  const Cell& mine = segment_->cell(segment_->rank(), epoch);
  const Cell& theirs = segment_->cell(rank, epoch);
  if (mine.what == theirs.what && mine.sequence == theirs.sequence) return true;
  const std::string text =
      group->disagreement(mine.what, mine.sequence, theirs.what, theirs.sequence, segment_->member(rank));
  trouble_ = {ErrorKind::mismatch, text};
  return false;
}

std::vector<int> SharedOperation::absent_from(std::uint64_t epoch) const {
  std::vector<int> ranks;
  for (int other = 0; other < segment_->size(); ++other)
    if (other != segment_->rank() && (!segment_->knows(other) || !segment_->begun(other, epoch)))
      ranks.push_back(segment_->member(other));
  return ranks;
}

// Ranks that hold this one up in an earlier epoch come first: they may also hold up ranks that have yet to begin this
// one.
std::vector<int> SharedOperation::absent() const {
  std::vector<int> ranks;
  if (phase_ == Phase::entering) ranks = absent_from(entry());
  return ranks.empty() ? absent_from(epoch_) : ranks;
}

std::vector<int> SharedOperation::missing() const {
  if (gone_ >= 0) return {segment_->member(gone_)};
  if (phase_ == Phase::working) {
    // What a rank has finished, it may leave: everything that it had for this rank lies there.
    std::vector<int> ranks;
    for (const int rank : behind())
      if (!segment_->finished(rank, epoch_)) ranks.push_back(segment_->member(rank));
    return ranks;
  }
  std::vector<int> ranks = absent();
  if (phase_ == Phase::gathering) std::erase_if(ranks, [this](int rank) { return !needs(segment_->place_of(rank)); });
  return ranks;
}

// The latest epoch in which all ranks are known to have stored the CPU that they run on; 0 if there is none, for
// example while earlier epochs wait for ranks whose part of the segment is not known yet.
std::uint64_t SharedOperation::last_whole_epoch() const {
  if (phase_ == Phase::working) return epoch_;
  return segment_->is_next(epoch_) ? epoch_ - 1 : 0;
}

int SharedOperation::neighbour() const {
  const auto last_epoch = last_whole_epoch();
  if (last_epoch == 0) return -1;
  const int cpu = ::sched_getcpu();
  const auto here = [&](int rank) {
    return segment_->cell(rank, last_epoch).cpu.load(std::memory_order_relaxed) == cpu && rank != segment_->rank();
  };
  if (phase_ == Phase::gathering) return here(next_) ? segment_->member(next_) : -1;
  for (int other = 0; other < segment_->size(); ++other)
    if (here(other)) return segment_->member(other);
  return -1;
}

bool SharedOperation::crowded(const cpu_set_t& cpus) const {
  const auto last_epoch = last_whole_epoch();
  const int here = ::sched_getcpu();
  if (last_epoch == 0 || here < 0 || here >= CPU_SETSIZE) return false;
  std::array<std::uint16_t, CPU_SETSIZE> ranks{};
  for (int place = 0; place < segment_->size(); ++place) {
    const bool own = place == segment_->rank();
    const int cpu = own ? here : segment_->cell(place, last_epoch).cpu.load(std::memory_order_relaxed);
    if (cpu < 0 || cpu >= CPU_SETSIZE) continue;
    if (cpu == here && place > segment_->rank()) return false;
    ++ranks[static_cast<std::size_t>(cpu)];
  }
  const int most = ranks[static_cast<std::size_t>(here)] - 2;
  for (std::size_t cpu = 0; most >= 0 && cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &cpus) && ranks[cpu] <= most) return true;
  return false;
}

bool SharedOperation::has_work() const {
  if (gone_ >= 0) return false;
  switch (phase_) {
    case Phase::entering: return segment_->ready() && segment_->is_next(epoch_) && segment_->all_begun(entry());
    case Phase::gathering: return missing().empty();
    default: return true;
  }
}

bool SharedOperation::read_from(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) {
  const int failure = segment_->read(rank, address, to, bytes);
  if (failure == 0) return true;
  look_for_ended();  // a rank that takes part no more may have given its memory back
  if (gone_ < 0 && !trouble_) trouble_ = group->unreadable(segment_->member(rank), failure);
  return false;
}

}  // namespace paceline
