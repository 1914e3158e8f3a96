// Where a waiting rank runs.
#include <chrono>
#include <vector>

#include "progress/placement.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

// Nobody else's rank is anywhere.
class Alone final : public Operation {
 public:
  bool step() override { return false; }
  bool complete() const override { return false; }
  std::vector<int> missing() const override { return {}; }
  std::vector<int> absent() const override { return {}; }
  bool has_work() const override { return false; }

 protected:
  void begin() override {}
  void clear() override {}
};

std::vector<int> allowed() {
  cpu_set_t set;
  CHECK(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

TEST(who_is_away_from_home_returns_and_may_run_anywhere_as_before) {
  const auto cpus = allowed();
  const Alone operation;
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  for (int turn = 0; turn < 20; ++turn) {
    const int home = cpus[static_cast<std::size_t>(turn) % cpus.size()];
    Placement placement(home);
    while (::sched_getcpu() != home) {
      CHECK(Clock::now() < deadline);
      placement.note(operation);
    }
    CHECK(allowed() == cpus);
  }
}

TEST(a_home_that_it_may_not_use_moves_nobody) {
  const auto before = allowed();
  const std::vector<int> only{before.front()};
  cpu_set_t all;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(before.front()), &one);
  CHECK(::sched_getaffinity(0, sizeof all, &all) == 0);
  CHECK(::sched_setaffinity(0, sizeof one, &one) == 0);
  for (const int home : {before.back() + 1, CPU_SETSIZE, CPU_SETSIZE + 7}) {
    Placement placement(home);
    for (int look = 0; look < 1000; ++look) placement.note(Alone());
    CHECK(allowed() == only);
  }
  CHECK(::sched_setaffinity(0, sizeof all, &all) == 0);
}
