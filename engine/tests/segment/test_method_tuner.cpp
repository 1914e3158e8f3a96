// The methods of large all-reduces: which are tried, which one is kept, and when they are tried again.
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "calibration/methods.hpp"
#include "segment/method_tuner.hpp"
#include "segment/segment.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
constexpr std::size_t kTriedBytes = 4 * kMegabyte;

void takes(MethodTuner& tuner, const Method& method, double microseconds) {
  tuner.record(kTriedBytes, method, std::chrono::nanoseconds(static_cast<long>(microseconds * 1000)));
}

}  // namespace

TEST(the_method_foreseen_comes_first_and_no_method_comes_twice) {
  constexpr std::size_t kBlock = std::size_t{512} << 10;
  for (const std::size_t ranks : {2UL, 3UL, 4UL, 64UL}) {
    for (std::size_t bytes = 5; bytes < (std::size_t{1} << 33); bytes = bytes * 3 + 1) {
      for (const bool readable : {true, false}) {
        const MethodLimits limits{ranks, readable, kBlock};
        const auto methods = methods_for(bytes, limits);
        CHECK(methods.front() == foreseen_method(bytes, limits));
        for (const Method& method : methods) {
          CHECK(std::ranges::count(methods, method) == 1);
          CHECK(method.block % 4096 == 0 && method.block > 0);
          CHECK(method.kind == Method::Kind::staged || (readable && ranks <= 4));
          CHECK(method.kind == Method::Kind::fetched || method.block * ranks * kPipeRounds <= kPipeBytes);
        }
      }
    }
  }
}

TEST(the_quickest_method_stays_if_it_is_clearly_quicker) {
  const MethodLimits limits{2, true, std::size_t{512} << 10};
  for (const double share : {0.5, 0.95, 1.5}) {
    MethodTuner tuner(limits.ranks);
    const auto all = methods_for(kTriedBytes, limits);
    CHECK(all.size() > 2);
    std::size_t calls = 0;
    for (; tuner.sizes().empty() || !tuner.sizes()[0].settled(); ++calls) {
      const Method method = tuner.next(kTriedBytes, limits);
      CHECK(method == all[calls % all.size()]);
      // One call of each method is lucky, and one is interrupted.
      const std::size_t round = calls / all.size();
      takes(tuner, method, (method == all.back() ? share : 1.0) * (round == 1 ? 100 : round == 3 ? 5000 : 1000));
    }
    CHECK(calls == all.size() * calibration::kTries);
    for (std::size_t i = 0; i < 3 * all.size(); ++i)
      CHECK(tuner.next(kTriedBytes + 5, limits) == (share < calibration::kClearly ? all.back() : all.front()));
    CHECK(tuner.next(kTriedBytes * 2, limits) == foreseen_method(kTriedBytes * 2, limits));
  }
}

TEST(methods_are_tried_again_when_times_have_changed_for_good) {
  const MethodLimits limits{2, true, std::size_t{512} << 10};
  MethodTuner tuner(limits.ranks);
  const auto all = methods_for(kTriedBytes, limits);
  // Calls until methods are tried again and have settled.
  const auto calls_until_tried = [&](const auto& time) {
    const std::size_t rounds = tuner.sizes().empty() ? 0 : tuner.sizes()[0].rounds;
    for (std::size_t calls = 0;; ++calls) {
      CHECK(calls < 1000);
      if (!tuner.sizes().empty() && tuner.sizes()[0].rounds > rounds) return calls - all.size() * calibration::kTries;
      const Method method = tuner.next(kTriedBytes, limits);
      takes(tuner, method, time(method));
    }
  };
  const auto never_tried = [&](const auto& time) {
    const std::size_t rounds = tuner.sizes()[0].rounds;
    for (std::size_t call = 0; call < 1000; ++call) takes(tuner, tuner.next(kTriedBytes, limits), time(call));
    CHECK(tuner.sizes()[0].rounds == rounds);
  };
  CHECK(calls_until_tried([&](const Method& method) { return method == all[1] ? 500 : 1000; }) == 0);
  never_tried([](std::size_t call) { return call % calibration::kPatience == 0 ? 500 : 5000; });
  never_tried([](std::size_t call) { return call % 2 == 0 ? 500 / 1.4 : 500 * 1.4; });

  CHECK(calls_until_tried([&](const Method& method) { return method == all[2] ? 1500 : 4000; }) ==
        calibration::kPatience);
  CHECK(tuner.next(kTriedBytes, limits) == all[2]);
  std::size_t patience = calibration::kPatience;
  for (double time = 1500 * 2; time < 1e7; time *= 2) {
    CHECK(calls_until_tried([&](const Method& method) { return method == all[2] ? time : 2 * time; }) == patience);
    patience = std::min(2 * patience, calibration::kMostPatience);
  }
  CHECK(calls_until_tried([&](const Method& method) { return method == all[1] ? 500 : 1000; }) == patience);
  CHECK(tuner.next(kTriedBytes, limits) == all[1]);
  CHECK(calls_until_tried([&](const Method&) { return 200; }) == calibration::kPatience);
  CHECK(tuner.next(kTriedBytes, limits) == all[0]);
}

TEST(nothing_is_tried_where_ranks_outnumber_the_cpus) {
  const MethodLimits limits{4, true, std::size_t{512} << 10};
  MethodTuner tuner(limits.ranks - 1);
  for (std::size_t call = 0; call < 100; ++call) {
    const Method method = tuner.next(kTriedBytes, limits);
    CHECK(method == foreseen_method(kTriedBytes, limits));
    takes(tuner, method, call < 50 ? 1 : 1000);
  }
  CHECK(tuner.sizes()[0].tried.size() == 1);
}
