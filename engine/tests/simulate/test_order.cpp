// Whatever order of batches a simulated job has, there is a course of events in which the same policies give it.
#include <set>

#include "simulate/job.hpp"
#include "tests/check.hpp"
#include "tests/policy/explore.hpp"

using namespace paceline;
using namespace paceline::simulate;

namespace {

constexpr std::uint64_t kElements[] = {4, 8};  // of "a" and "b", by which a batch tells what is in it

std::string word(std::uint64_t bytes) { return std::to_string(bytes) + " "; }

// The bytes of each batch, in order, in every course of events that is at most so far from the first one.
std::set<std::string> possible(const std::string& policy, const std::vector<int>& place) {
  test::Scenario what;
  what.policy = policy;
  what.machine_of = place;
  what.done_at_once = true;
  what.cycles = 3;
  what.deviations = 5;  // enough for all orders that are simulated
  what.steps.assign(place.size(), {{request("a", kElements[0]), request("b", kElements[1])}});
  std::set<std::string> found;
  const test::Explored all = test::explore(what, 400'000, [&](const PolicyWorld& world) {
    std::string order;
    for (const PolicyWorld::Batch& batch : world.rank(0).issued.at(0)) order += word(bytes_of(batch.requests));
    found.insert(order);
  });
  if (!all.fault.empty()) std::printf("   %s\n", all.fault.c_str());
  CHECK(all.fault.empty());
  return found;
}

std::string simulated(const std::string& policy, const std::vector<int>& place, std::uint64_t seed) {
  JobModel model;
  model.machine_of = place;
  model.policy = policy;
  model.gradients = {{"a", kElements[0], 0.5}, {"b", kElements[1], 1}};
  model.options.cycle_seconds = policy == "board" ? 0 : 0.005;
  model.awaits = false;
  model.compute.seconds = model.compute.delay = 0.004;
  model.thread.oversleeps = 0.3;
  model.thread.oversleep = 0.003;
  model.cores = {1, 1, 0.006, false};
  model.transfer.all_reduce = {{0, 0.001}};
  model.transfer.latency = 0.0001;
  model.seed = seed;
  Job job(model);
  job.step();
  std::string order;
  for (const Carried& batch : job.carried()) order += word(batch.bytes);
  return order;
}

}  // namespace

TEST(an_order_that_is_simulated_is_one_that_the_policies_allow) {
  for (const char* policy : {"board", "cycle", "global_sleep", "nonblocking"})
    for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}}) {
      const std::set<std::string> allowed = possible(policy, place);
      std::set<std::string> seen;
      for (std::uint64_t seed = 0; seed < 200; ++seed) seen.insert(simulated(policy, place, seed));
      std::printf("   %s on %d machines: %zu orders, %zu of them simulated\n", policy, place[1] + 1, allowed.size(),
                  seen.size());
      std::fflush(stdout);
      for (const std::string& order : seen) CHECK(allowed.contains(order));
      // Polling policies find both ready now and then; a board hears of the first one at once.
      CHECK(seen.size() == (policy == std::string("board") ? 1 : 2));
      CHECK(!allowed.contains(word(4 * kElements[1]) + word(4 * kElements[0])));
    }
}
