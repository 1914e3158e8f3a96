// What a waiting rank learns from a yield.
#include <chrono>
#include <thread>

#include "progress/backoff.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kAbsence = std::chrono::milliseconds(2);
constexpr Clock::time_point kAtOnce{};  // before any look, whatever keeps this test from its CPU

bool not_crowded() { return false; }

WaitBudget yielding() { return {.yield = std::chrono::hours(1)}; }

// A busy machine may keep a test waiting between any two looks at the clock: then another one is made.
Backoff about_to_yield(WaitBudget& budget) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (true) {
    Backoff backoff(budget);
    if (backoff.next(not_crowded) == Backoff::Next::yield) return backoff;
    CHECK(Clock::now() < deadline);
  }
}

}  // namespace

TEST(a_long_absence_is_noted_also_where_it_was_the_last_yield) {
  WaitBudget budget = yielding();
  Backoff backoff = about_to_yield(budget);
  std::this_thread::sleep_for(kAbsence);
  backoff.yielded();
  backoff.reset();  // peers have come meanwhile
  CHECK(budget.yield_again > Clock::time_point{});
  budget.yield_again = Clock::now() + std::chrono::hours(1);  // however long this test is kept waiting
  CHECK(Backoff(budget).next(not_crowded) == Backoff::Next::park);
}

TEST(a_second_absence_ends_yielding_for_longer_than_the_first_until_many_yields_have_helped) {
  const auto pause_after_an_absence = [](WaitBudget& budget) {
    budget.yield_again = {};
    Backoff backoff = about_to_yield(budget);
    const auto back = Clock::now() + kAbsence;
    backoff.yielded(back);
    return budget.yield_again - back;
  };
  WaitBudget budget = yielding();
  const auto first = pause_after_an_absence(budget);
  CHECK(first > kAbsence);
  const auto second = pause_after_an_absence(budget);
  CHECK(second > 10 * first);
  CHECK(pause_after_an_absence(budget) == second);
  budget.yield_again = {};
  for (int yields = 0; yields < 1000; ++yields) {
    Backoff helped = about_to_yield(budget);
    helped.yielded(kAtOnce);
  }
  CHECK(pause_after_an_absence(budget) < Clock::duration::zero());  // it came after many, and is not held against them
  CHECK(pause_after_an_absence(budget) == first);
}

TEST(a_short_absence_is_no_stranger) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (true) {
    WaitBudget budget = yielding();
    const auto begin = Clock::now();
    Backoff backoff = about_to_yield(budget);
    backoff.yielded();
    if (Clock::now() - begin < std::chrono::microseconds(500)) {
      CHECK(budget.yield_again == Clock::time_point{});
      return;
    }
    CHECK(Clock::now() < deadline);
  }
}

TEST(an_absence_after_many_yields_is_not_their_fault_but_a_second_one_is) {
  WaitBudget budget = yielding();
  budget.yields = 1'000'000;
  Backoff backoff = about_to_yield(budget);
  std::this_thread::sleep_for(kAbsence);
  backoff.yielded();
  CHECK(budget.yield_again == Clock::time_point{});
  Backoff next = about_to_yield(budget);
  std::this_thread::sleep_for(kAbsence);
  next.yielded();
  CHECK(budget.yield_again > Clock::time_point{});
}

TEST(work_after_a_yield_is_no_absence) {
  WaitBudget budget = yielding();
  Backoff backoff = about_to_yield(budget);
  backoff.yielded();
  const auto before = budget.yield_again;
  std::this_thread::sleep_for(kAbsence);
  backoff.reset();
  CHECK(budget.yield_again == before);
}

TEST(after_a_short_sleep_it_yields_for_longer_next_time_and_after_a_long_one_for_less) {
  const auto yield = std::chrono::microseconds(20);
  const auto after_a_sleep = [&](std::chrono::nanoseconds longest) {
    WaitBudget budget{.yield = yield, .longest = longest};
    Backoff backoff(budget);
    backoff.next(not_crowded);
    backoff.slept();
    return budget.yield;
  };
  CHECK(after_a_sleep(std::chrono::hours(1)) == 2 * yield);
  CHECK(after_a_sleep(std::chrono::nanoseconds(0)) == yield / 2);
}
