#include "shared/leader_all_reduce.hpp"

#include <algorithm>

#include "execute/group.hpp"

namespace paceline {

int leader_of(const Plan& plan, std::span<const int> machine) {
  if (plan.levels.size() < 2) return -1;
  const auto here = [&](int rank) { return std::ranges::find(machine, rank) != machine.end(); };
  const auto touches = [&](const Reduce& reduce) {
    return here(reduce.owner) || std::ranges::any_of(reduce.holders, here);
  };
  const Level& first = plan.levels.front();
  const auto found = std::ranges::find_if(first, touches);
  if (found == first.end() || std::ranges::count_if(first, touches) > 1) return -1;
  const bool whole = found->begin.numerator == 0 && found->end.numerator == found->end.denominator;
  const int leader = found->owner;
  if (!whole || !here(leader) || !std::ranges::is_permutation(found->holders, machine)) return -1;
  const auto follows = [&](int rank) { return here(rank) && rank != leader; };
  for (const Level& level : std::span(plan.levels).subspan(1))
    for (const Reduce& reduce : level)
      if (follows(reduce.owner) || std::ranges::any_of(reduce.holders, follows)) return -1;
  return leader;
}

// It takes both epochs at once: a collective that starts before this one is over comes after both.
void LeaderAllReduce::begin() {
  for (Operation* part : {static_cast<Operation*>(&gathering), static_cast<Operation*>(&showing)}) {
    part->what = what;
    part->sequence = sequence;
    part->start(*group, workspace_);
  }
  step();
}

const Operation& LeaderAllReduce::current() const {
  switch (phase_) {
    case Phase::gathering: return gathering;
    case Phase::between: return between;
    case Phase::showing: break;
  }
  return showing;
}

bool LeaderAllReduce::advance(Operation& part) {
  const bool moved = !part.complete() && part.step();
  if (part.trouble()) trouble_ = part.trouble();
  return moved;
}

bool LeaderAllReduce::step() {
  if (trouble_) return false;
  bool moved = false;
  if (phase_ == Phase::gathering) {
    moved = advance(gathering);
    if (!gathering.complete()) return moved;
    phase_ = Phase::between;
    if (leads) {
      between.what = what;
      between.sequence = sequence;
      between.start(*group, workspace_);
    }
  }
  if (phase_ == Phase::between) {
    if (leads) {
      moved |= advance(between);
      if (trouble_ || !between.complete()) return moved;
      between.finish();
    }
    // This comes last, so that no rank takes this one for one that has finished.
    gathering.finish();
    phase_ = Phase::showing;
    moved = true;
  }
  return advance(showing) || moved;
}

// A rank of this machine shows in the segment that it has begun, and sends nothing.
std::vector<int> LeaderAllReduce::absent() const {
  const auto local = gathering.absent();
  auto ranks = group->unheard(sequence);
  std::erase_if(ranks, [&](int rank) {
    return group->segment->place_of(rank) >= 0 && std::ranges::find(local, rank) == local.end();
  });
  return ranks;
}

void LeaderAllReduce::let_go(const Error& error) {
  gathering.fail(error);
  between.fail(error);
  showing.fail(error);
}

void LeaderAllReduce::clear() {
  gathering.reset();
  between.reset();
  showing.reset();
  leads = false;
  phase_ = Phase::gathering;
}

}  // namespace paceline
