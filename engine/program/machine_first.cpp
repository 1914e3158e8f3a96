#include "program/machine_first.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace paceline {
namespace {

bool less(const Fraction& a, const Fraction& b) {
  __extension__ using Wide = __int128;
  return Wide{a.numerator} * b.denominator < Wide{b.numerator} * a.denominator;
}

bool equal(const Fraction& a, const Fraction& b) { return !less(a, b) && !less(b, a); }

bool covers_all(std::vector<Reduce> ranges) {
  std::ranges::sort(ranges, [](const Reduce& a, const Reduce& b) { return less(a.begin, b.begin); });
  Fraction end{0, 1};
  for (const Reduce& range : ranges) {
    if (!equal(range.begin, end)) return false;
    end = range.end;
  }
  return equal(end, {1, 1});
}

// The ranks of a machine, and how they are joined.
struct Machine {
  std::vector<int> ranks;
  std::vector<Reduce> ranges;
  std::size_t level = 0;  // of these

  bool joined_before(std::size_t other) const { return ranks.size() == 1 || (!ranges.empty() && level < other); }
};

// Machines by their numbers.
class Machines {
 public:
  explicit Machines(const std::vector<int>& machines) : numbers_(machines) {
    for (std::size_t rank = 0; rank < machines.size(); ++rank)
      all_[machines[rank]].ranks.push_back(static_cast<int>(rank));
  }

  bool some_share() const { return all_.size() > 1 && all_.size() < numbers_.size(); }
  const std::map<int, Machine>& all() const { return all_; }

  // Takes what a level does within machines, and adds the rest to `left`. Returns whether that can be: see
  // MachineFirst.
  bool take(const Level& level, std::size_t number, Level& left) {
    for (const Reduce& reduce : level) {
      Machine& machine = of(reduce.owner);
      if (std::ranges::any_of(reduce.holders, [&](int rank) { return &of(rank) != &machine; })) {
        left.push_back(reduce);
        continue;
      }
      if (reduce.holders != machine.ranks || (!machine.ranges.empty() && machine.level != number)) return false;
      machine.level = number;
      machine.ranges.push_back(reduce);
    }
    return std::ranges::all_of(left, [&](const Reduce& reduce) {
      const auto joined = [&](int rank) { return of(rank).joined_before(number); };
      return joined(reduce.owner) && std::ranges::all_of(reduce.holders, joined);
    });
  }

  bool all_joined() const {
    return std::ranges::all_of(
        all_, [](const auto& one) { return one.second.ranks.size() == 1 || covers_all(one.second.ranges); });
  }

  std::vector<Fraction> cuts() const {
    std::vector<Fraction> cuts;
    for (const auto& [number, machine] : all_)
      for (const Reduce& range : machine.ranges) cuts.insert(cuts.end(), {range.begin, range.end});
    std::ranges::sort(cuts, less);
    const auto same = std::ranges::unique(cuts, equal);
    cuts.erase(same.begin(), same.end());
    return cuts;
  }

 private:
  Machine& of(int rank) { return all_[numbers_[static_cast<std::size_t>(rank)]]; }

  const std::vector<int>& numbers_;
  std::map<int, Machine> all_;
};

std::size_t ranges_in(const std::vector<bool>& has) {
  std::size_t begun = 0;
  for (std::size_t segment = 0; segment < has.size(); ++segment)
    begun += has[segment] && (segment == 0 || !has[segment - 1]) ? 1 : 0;
  return begun;
}

}  // namespace

std::optional<MachineFirst> MachineFirst::of(const Plan& plan, const std::vector<int>& machines, std::size_t ranges) {
  Machines all(machines);
  if (plan.one_shot || !all.some_share()) return std::nullopt;
  MachineFirst found;
  found.between_ = plan;
  found.between_.levels.clear();
  for (std::size_t level = 0; level < plan.levels.size(); ++level) {
    Level left;
    if (!all.take(plan.levels[level], level, left)) return std::nullopt;
    if (!left.empty()) found.between_.levels.push_back(std::move(left));
  }
  if (!all.all_joined()) return std::nullopt;
  found.cuts_ = all.cuts();
  found.has_.assign(machines.size(), std::vector<bool>(found.segments(), false));
  for (const auto& [number, machine] : all.all()) {
    if (machine.ranks.size() == 1) found.has_[static_cast<std::size_t>(machine.ranks[0])].flip();
    for (const Reduce& range : machine.ranges)
      for (std::size_t segment = 0; segment < found.segments(); ++segment)
        if (!less(found.cuts_[segment], range.begin) && less(found.cuts_[segment], range.end))
          found.has_[static_cast<std::size_t>(range.owner)][segment] = true;
  }
  if (std::ranges::any_of(found.has_, [&](const auto& has) { return ranges_in(has) > ranges; })) return std::nullopt;
  return found;
}

MachineParts::MachineParts(MachineFirst plan, std::size_t count, std::size_t chunk, Pieces pieces)
    : plan_(std::move(plan)), count_(count), chunk_(chunk), pieces_(std::move(pieces)) {
  in_full_chunk_ = lengths(chunk);
  const std::vector<std::size_t> in_last = lengths(count % chunk);
  begins_.push_back(0);
  for (std::size_t segment = 0; segment < in_last.size(); ++segment)
    begins_.push_back(begins_.back() + count / chunk * in_full_chunk_[segment] + in_last[segment]);
}

template <typename Each>
void MachineParts::divide(std::size_t elements, Each&& each) const {
  if (elements == 0) return;
  const auto pieces = static_cast<std::int64_t>(pieces_(between(), elements));
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::size_t first = Fraction{piece, pieces}.of(elements);
    const std::size_t length = Fraction{piece + 1, pieces}.of(elements) - first;
    for (std::size_t segment = 0; segment < plan_.segments(); ++segment) {
      const std::size_t begin = plan_.cuts()[segment].of(length);
      each(segment, first + begin, plan_.cuts()[segment + 1].of(length) - begin);
    }
  }
}

std::vector<std::size_t> MachineParts::lengths(std::size_t elements) const {
  std::vector<std::size_t> all(plan_.segments(), 0);
  divide(elements, [&](std::size_t segment, std::size_t, std::size_t count) { all[segment] += count; });
  return all;
}

std::vector<Intervals::Interval> MachineParts::in_buffer(int rank) const {
  std::vector<Intervals::Interval> all;
  for (std::size_t segment = 0; segment < plan_.segments(); ++segment) {
    if (!plan_.has(rank, segment)) continue;
    if (segment == 0 || !plan_.has(rank, segment - 1)) all.push_back({begins_[segment], begins_[segment]});
    all.back().end = begins_[segment + 1];
  }
  return all;
}

std::vector<MachineParts::Slice> MachineParts::in_chunk(int rank, std::size_t index) const {
  std::vector<std::size_t> next = begins_;
  for (std::size_t segment = 0; segment < plan_.segments(); ++segment) next[segment] += index * in_full_chunk_[segment];
  std::vector<Slice> all;
  divide(std::min(chunk_, count_ - index * chunk_), [&](std::size_t segment, std::size_t begin, std::size_t count) {
    if (plan_.has(rank, segment) && count > 0) all.push_back({next[segment], begin, count});
    next[segment] += count;
  });
  return all;
}

}  // namespace paceline
