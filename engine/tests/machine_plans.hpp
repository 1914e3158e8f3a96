// Plans between machines that join the ranks of each machine first.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/world.hpp"

namespace paceline::test {

// The ranks of a machine combine as many equal ranges as they are. Where these of all machines overlap, the ranks that
// have them combine them: each machine in turn, or always the first. machines: of every rank, from 0 on without gaps.
inline Plan machine_plan(const std::vector<int>& machines, bool in_turn = true, std::size_t chunk_bytes = 0) {
  std::vector<std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    ranks.resize(std::max(ranks.size(), static_cast<std::size_t>(machines[rank]) + 1));
    ranks[static_cast<std::size_t>(machines[rank])].push_back(static_cast<int>(rank));
  }
  Plan plan{-1, "machines", false, {{}, {}}};
  plan.chunk_bytes = chunk_bytes;
  int all = 1;  // a multiple of all numbers of ranks
  for (const auto& here : ranks) all *= static_cast<int>(here.size());
  std::vector<int> cuts;
  for (const auto& here : ranks) {
    const int size = static_cast<int>(here.size());
    for (int part = 0; part < size; ++part) {
      cuts.push_back(part * (all / size));
      if (size > 1)
        plan.levels[0].push_back(reduce_of(part, part + 1, size, here, here[static_cast<std::size_t>(part)]));
    }
  }
  cuts.push_back(all);
  std::ranges::sort(cuts);
  const auto same = std::ranges::unique(cuts);
  cuts.erase(same.begin(), same.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<int> holders;
    for (const auto& here : ranks)
      holders.push_back(here[static_cast<std::size_t>(cuts[i] * static_cast<int>(here.size()) / all)]);
    const int owner = holders[in_turn ? i % holders.size() : 0];
    plan.levels[1].push_back(reduce_of(cuts[i], cuts[i + 1], all, std::move(holders), owner));
  }
  return plan;
}

}  // namespace paceline::test
