// Every interleaving of a small world. Worlds that are alike are gone into once.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "tests/policy/model_world.hpp"

namespace paceline::test {

struct Explored {
  std::size_t states = 0;
  std::size_t ends = 0;
  std::string fault;  // what a policy did wrong
};

inline Explored explore(
    const Scenario& what, std::size_t limit = 150'000,
    const std::function<void(const PolicyWorld&)>& at_end = [](const PolicyWorld&) {}) {
  Explored result;
  std::unordered_map<std::uint64_t, int> seen;  // after how many deviations, at the least
  std::vector<std::vector<ModelWorld::Choice>> stack{{}};
  std::vector<int> deviated{0};  // of the paths on the stack
  while (!stack.empty()) {
    std::vector<ModelWorld::Choice> path = std::move(stack.back());
    stack.pop_back();
    const int deviations = deviated.back();
    deviated.pop_back();
    try {
      ModelWorld world(what);
      for (const ModelWorld::Choice& choice : path) world.take(choice);
      for (;;) {
        const auto [at, fresh] = seen.emplace(world.key(), deviations);
        if (!fresh && at->second <= deviations) break;
        at->second = deviations;
        if (fresh && ++result.states > limit) throw std::logic_error("too large a world");
        const auto choices = world.choices();
        if (choices.empty()) {
          ++result.ends;
          world.check_over();
          at_end(world.policies());
          break;
        }
        for (std::size_t other = 1; other < choices.size() && deviations < what.deviations; ++other) {
          stack.push_back(path);
          stack.back().push_back(choices[other]);
          deviated.push_back(deviations + 1);
        }
        path.push_back(choices[0]);
        world.take(choices[0]);
      }
    } catch (const std::exception& wrong) {
      result.fault = wrong.what();
      return result;
    }
  }
  return result;
}

}  // namespace paceline::test
