#include "python/plans.hpp"

#include "failure/error.hpp"

namespace paceline {
namespace {

Plan plan_from(const WirePlan& wire) {
  // A chunk costs every rank some messages and some memory, so a wrong number must not make billions of them.
  constexpr std::int64_t kSmallestChunk = 4096;
  const auto& [limit, name, one_shot, chunk, in_flight, levels] = wire;
  if (chunk < 0 || (chunk > 0 && chunk < kSmallestChunk))
    throw Failure(ErrorKind::invalid, "a plan's chunk must be 0 or at least " + std::to_string(kSmallestChunk) +
                                          " bytes, got " + std::to_string(chunk));
  // Each takes memory of its own.
  constexpr std::int64_t kMostInFlight = 64;
  if (in_flight < 1 || in_flight > kMostInFlight)
    throw Failure(ErrorKind::invalid, "a plan's chunks under way must be 1 to " + std::to_string(kMostInFlight) +
                                          ", got " + std::to_string(in_flight));
  Plan plan{limit, name, one_shot, {}, static_cast<std::size_t>(chunk), static_cast<std::size_t>(in_flight)};
  for (const auto& wire_level : levels) {
    Level& level = plan.levels.emplace_back();
    for (const auto& [begin, begin_of, end, end_of, holders, owner] : wire_level) {
      if (begin < 0 || begin_of <= 0 || end < begin / begin_of || end_of <= 0)
        throw Failure(ErrorKind::invalid, "a plan's range must lie within 0 and 1");
      level.push_back({{begin, begin_of}, {end, end_of}, holders, owner});
    }
  }
  return plan;
}

}  // namespace

Plans plans_from(const WirePlans& wire) {
  Plans plans;
  for (const auto& [collective, choices] : wire)
    for (const auto& choice : choices) plans[collective].push_back(plan_from(choice));
  return plans;
}

}  // namespace paceline
