// Plans for worlds of a few machines, beside those of `world.hpp`.
#pragma once

#include "tests/world.hpp"

namespace paceline::test {

// Machines {0, 1} and {2, 3, 4}: in each first one owner per block, then across, half of every block owned by either.
inline Plan two_and_three() {
  Plan plan{-1, "two_and_three", false, {{}, {}}};
  plan.levels[0] = {reduce_of(0, 3, 6, {0, 1}, 0), reduce_of(3, 6, 6, {0, 1}, 1), reduce_of(0, 2, 6, {2, 3, 4}, 2),
                    reduce_of(2, 4, 6, {2, 3, 4}, 3), reduce_of(4, 6, 6, {2, 3, 4}, 4)};
  const int cuts[][4] = {{0, 2, 0, 2}, {2, 3, 0, 3}, {3, 4, 1, 3}, {4, 6, 1, 4}};
  for (const auto& [begin, end, a, b] : cuts) {
    plan.levels[1].push_back(reduce_of(2 * begin, begin + end, 12, {a, b}, a));
    plan.levels[1].push_back(reduce_of(begin + end, 2 * end, 12, {a, b}, b));
  }
  return plan;
}

// The same machines; their first ranks tell each other all that they have combined.
inline Plan leaders_of_two_and_three() {
  return {-1,
          "exchange",
          true,
          {{reduce_of(0, 1, 1, {0, 1}, 0), reduce_of(0, 1, 1, {2, 3, 4}, 2)}, {reduce_of(0, 1, 1, {0, 2}, 0)}}};
}

inline Plan binomial_plan(int size) {
  Plan plan{-1, "binomial", false, {}};
  for (int distance = 1; distance < size; distance *= 2) {
    Level level;
    for (int parent = 0; parent + distance < size; parent += 2 * distance)
      level.push_back(reduce_of(0, 1, 1, {parent, parent + distance}, parent));
    plan.levels.push_back(level);
  }
  return plan;
}

// The same machines; rank i ends as the owner of block i, some of which it has given away before.
inline Plan blocks_of_two_and_three() {
  Plan plan = two_and_three();
  plan.levels[1].clear();
  const int parts[][5] = {{0, 6, 0, 2, 0},   {6, 10, 0, 2, 1},  {10, 12, 0, 3, 1}, {12, 15, 0, 3, 2},
                          {15, 18, 1, 3, 2}, {18, 20, 1, 3, 3}, {20, 24, 1, 4, 3}, {24, 30, 1, 4, 4}};
  for (const auto& [begin, end, a, b, owner] : parts)
    plan.levels[1].push_back(reduce_of(begin, end, 30, {a, b}, owner));
  return plan;
}

// A part of what rank 0 sends in the second level has been combined before, and the rest has not.
inline Plan blocks_in_two_states() {
  return {-1,
          "two_states",
          false,
          {{reduce_of(0, 3, 6, {0, 1}, 0)},
           {reduce_of(2, 4, 6, {0, 2}, 2), reduce_of(0, 2, 6, {0, 2}, 0), reduce_of(4, 6, 6, {0, 1, 2}, 2)},
           {reduce_of(2, 3, 6, {2}, 1), reduce_of(3, 4, 6, {1, 2}, 1)}}};
}

inline Plans cut(Plan all_reduce, int size, std::size_t chunk, Plan all_gather = {}) {
  all_reduce.chunk_bytes = chunk;
  Plan broadcast = binomial_plan(size);
  broadcast.chunk_bytes = chunk;
  if (all_gather.levels.empty()) all_gather = ring_plan(size);
  all_gather.chunk_bytes = chunk;
  return {{"all_reduce", {all_reduce}},
          {"all_gather", {all_gather}},
          {"broadcast", {broadcast}},
          {"turned_broadcast", {broadcast}}};
}

}  // namespace paceline::test
