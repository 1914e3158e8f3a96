// Plans in which the ranks of each machine come first, and where what they have then lies.
#include <random>

#include "program/machine_first.hpp"
#include "tests/check.hpp"
#include "tests/machine_plans.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::size_t kRanges = 8;

// Pieces of 100 elements at most.
std::size_t pieces_of(const Plan&, std::size_t elements) { return (elements + 99) / 100; }

// Every element of the buffer is in one place of one chunk, for all machines in the same one; and each machine has each
// element once, where its ranks' intervals say.
void covers_everything_once(const MachineFirst& plan, const std::vector<int>& machines, std::size_t count,
                            std::size_t chunk) {
  const MachineParts parts(plan, count, chunk, pieces_of);
  const int last = *std::ranges::max_element(machines);
  std::vector<std::size_t> places;
  for (int machine = 0; machine <= last; ++machine) {
    std::vector<std::size_t> found(count, count);  // by element: chunk and place in it
    for (std::size_t rank = 0; rank < machines.size(); ++rank) {
      if (machines[rank] != machine) continue;
      const auto intervals = parts.in_buffer(static_cast<int>(rank));
      CHECK(intervals.size() <= kRanges);
      std::size_t in_chunks = 0;
      for (std::size_t index = 0; index * chunk < count; ++index) {
        for (const auto& [there, here, length] : parts.in_chunk(static_cast<int>(rank), index)) {
          CHECK(here + length <= std::min(chunk, count - index * chunk));
          CHECK(std::ranges::any_of(intervals, [&](const Intervals::Interval& one) {
            return one.begin <= there && there + length <= one.end;
          }));
          for (std::size_t i = 0; i < length; ++i) {
            CHECK(found[there + i] == count);
            found[there + i] = index * chunk + here + i;
          }
          in_chunks += length;
        }
      }
      std::size_t in_buffer = 0;
      for (const auto& [begin, end] : intervals) in_buffer += end - begin;
      CHECK(in_buffer == in_chunks);
    }
    CHECK(std::ranges::find(found, count) == found.end());
    if (places.empty()) places = found;
    CHECK(found == places);
  }
  std::ranges::sort(places);
  for (std::size_t i = 0; i < count; ++i) CHECK(places[i] == i);
}

std::optional<MachineFirst> of(const Plan& plan, const std::vector<int>& machines) {
  return MachineFirst::of(plan, machines, kRanges);
}

}  // namespace

TEST(every_element_is_in_one_place) {
  std::mt19937 random(7);
  for (int again = 0; again < sweep(300, 50, 1); ++again) {
    std::vector<int> machines;
    const int number = 2 + static_cast<int>(random() % 3);
    for (int machine = 0; machine < number; ++machine)
      machines.insert(machines.end(), 1 + random() % 4 + (machine == 0 ? 1 : 0), machine);
    const auto plan = of(machine_plan(machines), machines);
    CHECK(plan);
    covers_everything_once(*plan, machines, 1 + random() % 5000, 1 + random() % 1000);
  }
}

TEST(what_is_left_is_between_machines) {
  const std::vector<int> machines{0, 0, 1, 1, 1, 2};
  const auto plan = of(machine_plan(machines), machines);
  CHECK(plan && plan->between().levels.size() == 1);
  for (const Reduce& reduce : plan->between().levels[0]) CHECK(reduce.holders.size() == 3);
  CHECK(plan->segments() == 4);  // 0 to 1/3 to 1/2 to 2/3 to 1
  CHECK(plan->has(0, 0) && plan->has(0, 1) && !plan->has(0, 2));
  CHECK(!plan->has(3, 0) && plan->has(3, 1) && plan->has(3, 2) && !plan->has(3, 3));
  for (std::size_t segment = 0; segment < 4; ++segment) CHECK(plan->has(5, segment));
}

// One machine may be joined while two others, of a rank each, have begun.
TEST(machines_need_not_begin_together) {
  const std::vector<int> machines{0, 0, 1, 2};
  const Plan plan{-1,
                  "late",
                  false,
                  {{reduce_of(0, 1, 1, {2, 3}, 2)},
                   {reduce_of(0, 1, 2, {0, 1}, 0), reduce_of(1, 2, 2, {0, 1}, 1)},
                   {reduce_of(0, 1, 2, {0, 2}, 0), reduce_of(1, 2, 2, {1, 2}, 2)}}};
  const auto found = of(plan, machines);
  CHECK(found && found->between().levels.size() == 2);
}

TEST(other_plans) {
  const std::vector<int> machines{0, 0, 1, 1};
  CHECK(!of(ring_plan(4), machines));
  CHECK(!of(direct_plan(4), machines));
  CHECK(!of(direct_plan(4), {0, 0, 0, 0}));
  CHECK(!of(machine_plan(machines), {}));
  CHECK(!of(direct_plan(3), {0, 1, 2}));
  Plan plan = machine_plan(machines);
  CHECK(of(plan, machines));
  plan.one_shot = true;
  CHECK(!of(plan, machines));
  plan = machine_plan(machines);
  plan.levels[0].pop_back();  // a part of one machine is not combined
  CHECK(!of(plan, machines));
  plan = machine_plan(machines);
  std::ranges::reverse(plan.levels[0][0].holders);
  CHECK(!of(plan, machines));
  plan = machine_plan(machines);
  std::swap(plan.levels[0], plan.levels[1]);
  CHECK(!of(plan, machines));
  plan = machine_plan(machines);
  plan.levels.push_back({plan.levels[0][0]});
  CHECK(!of(plan, machines));
}

TEST(more_ranges_than_a_rank_may_have) {
  const std::vector<int> machines{0, 0, 1};
  Plan plan{-1, "combs", false, {{}, {}}};
  constexpr int kTeeth = 2 * static_cast<int>(kRanges);
  for (int tooth = 0; tooth < kTeeth; ++tooth) {
    plan.levels[0].push_back(reduce_of(tooth, tooth + 1, kTeeth, {0, 1}, tooth % 2));
    plan.levels[1].push_back(reduce_of(tooth, tooth + 1, kTeeth, {tooth % 2, 2}, 2));
  }
  CHECK(MachineFirst::of(plan, machines, kRanges));
  CHECK(!MachineFirst::of(plan, machines, kRanges - 1));
}
