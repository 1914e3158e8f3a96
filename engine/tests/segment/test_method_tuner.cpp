// Which way large all-reduces go: what is tried, what stays, and when it is tried again.
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "segment/method_tuner.hpp"
#include "segment/segment.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
constexpr std::size_t kTriedBytes = 4 * kMegabyte;

void takes(Ways& ways, const Way& way, double microseconds) {
  ways.took(kTriedBytes, way, std::chrono::nanoseconds(static_cast<long>(microseconds * 1000)));
}

}  // namespace

TEST(the_way_foreseen_comes_first_and_no_way_comes_twice) {
  constexpr std::size_t kBlock = std::size_t{512} << 10;
  for (const std::size_t ranks : {2UL, 3UL, 4UL, 64UL}) {
    for (std::size_t bytes = 5; bytes < (std::size_t{1} << 33); bytes = bytes * 3 + 1) {
      for (const bool readable : {true, false}) {
        const WayLimits limits{ranks, readable, kBlock};
        const auto ways = ways_for(bytes, limits);
        CHECK(ways.front() == foreseen_way(bytes, limits));
        for (const Way& way : ways) {
          CHECK(std::ranges::count(ways, way) == 1);
          CHECK(way.block % 4096 == 0 && way.block > 0);
          CHECK(way.kind == Way::Kind::staged || (readable && ranks <= 4));
          CHECK(way.kind == Way::Kind::fetched || way.block * ranks * kPipeRounds <= kPipeBytes);
        }
      }
    }
  }
}

TEST(the_quickest_way_stays_if_it_is_clearly_quicker) {
  const WayLimits limits{2, true, std::size_t{512} << 10};
  for (const double share : {0.5, 0.95, 1.5}) {
    Ways ways(limits.ranks);
    const auto all = ways_for(kTriedBytes, limits);
    CHECK(all.size() > 2);
    std::size_t calls = 0;
    for (; ways.sizes().empty() || !ways.sizes()[0].settled(); ++calls) {
      const Way way = ways.next(kTriedBytes, limits);
      CHECK(way == all[calls % all.size()]);
      // Of each way's calls one has luck, and one is interrupted.
      const std::size_t turn = calls / all.size();
      takes(ways, way, (way == all.back() ? share : 1.0) * (turn == 1 ? 100 : turn == 3 ? 5000 : 1000));
    }
    CHECK(calls == all.size() * Ways::kTries);
    for (std::size_t i = 0; i < 3 * all.size(); ++i)
      CHECK(ways.next(kTriedBytes + 5, limits) == (share < Ways::kClearly ? all.back() : all.front()));
    CHECK(ways.next(kTriedBytes * 2, limits) == foreseen_way(kTriedBytes * 2, limits));
  }
}

TEST(ways_are_tried_again_when_times_have_changed_for_good) {
  const WayLimits limits{2, true, std::size_t{512} << 10};
  Ways ways(limits.ranks);
  const auto all = ways_for(kTriedBytes, limits);
  // Calls until ways are tried again and have settled.
  const auto calls_until_tried = [&](const auto& time) {
    const std::size_t rounds = ways.sizes().empty() ? 0 : ways.sizes()[0].rounds;
    for (std::size_t calls = 0;; ++calls) {
      CHECK(calls < 1000);
      if (!ways.sizes().empty() && ways.sizes()[0].rounds > rounds) return calls - all.size() * Ways::kTries;
      const Way way = ways.next(kTriedBytes, limits);
      takes(ways, way, time(way));
    }
  };
  const auto never_tried = [&](const auto& time) {
    const std::size_t rounds = ways.sizes()[0].rounds;
    for (std::size_t call = 0; call < 1000; ++call) takes(ways, ways.next(kTriedBytes, limits), time(call));
    CHECK(ways.sizes()[0].rounds == rounds);
  };
  CHECK(calls_until_tried([&](const Way& way) { return way == all[1] ? 500 : 1000; }) == 0);
  never_tried([](std::size_t call) { return call % Ways::kPatience == 0 ? 500 : 5000; });
  never_tried([](std::size_t call) { return call % 2 == 0 ? 500 / 1.4 : 500 * 1.4; });

  CHECK(calls_until_tried([&](const Way& way) { return way == all[2] ? 1500 : 4000; }) == Ways::kPatience);
  CHECK(ways.next(kTriedBytes, limits) == all[2]);
  std::size_t patience = Ways::kPatience;
  for (double time = 1500 * 2; time < 1e7; time *= 2) {
    CHECK(calls_until_tried([&](const Way& way) { return way == all[2] ? time : 2 * time; }) == patience);
    patience = std::min(2 * patience, Ways::kMostPatience);
  }
  CHECK(calls_until_tried([&](const Way& way) { return way == all[1] ? 500 : 1000; }) == patience);
  CHECK(ways.next(kTriedBytes, limits) == all[1]);
  CHECK(calls_until_tried([&](const Way&) { return 200; }) == Ways::kPatience);
  CHECK(ways.next(kTriedBytes, limits) == all[0]);
}

TEST(nothing_is_tried_where_ranks_outnumber_the_cpus) {
  const WayLimits limits{4, true, std::size_t{512} << 10};
  Ways ways(limits.ranks - 1);
  for (std::size_t call = 0; call < 100; ++call) {
    const Way way = ways.next(kTriedBytes, limits);
    CHECK(way == foreseen_way(kTriedBytes, limits));
    takes(ways, way, call < 50 ? 1 : 1000);
  }
  CHECK(ways.sizes()[0].tried.size() == 1);
}
