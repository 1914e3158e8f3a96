// Limits from timings, of which every property follows from their definition, and how often ranks time.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "device/trials.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::device;

namespace {

constexpr auto& kTried = Timings::kBytes;

// The row of the path on which an all-reduce of so many bytes goes.
std::size_t row_of(const Limits& limits, std::size_t bytes) {
  const Call call{.count = bytes};
  const auto path = choose(call, 2, limits, "").path;
  return static_cast<std::size_t>(std::ranges::find(Timings::kPaths, path) - Timings::kPaths.begin());
}

double cost(const Timings& timings, const Limits& limits) {
  double sum = 0;
  for (std::size_t size = 0; size < kTried.size(); ++size)
    sum += std::log(timings.of[row_of(limits, kTried[size])][size]);
  return sum;
}

// Every way to divide the sizes between the paths, whatever lies between two sizes.
std::vector<Limits> all_limits() {
  std::vector<std::size_t> cuts = {0};
  for (const std::size_t bytes : kTried) cuts.push_back(bytes);
  std::vector<Limits> all;
  for (const std::size_t host : cuts)
    for (const std::size_t one_shot : cuts) all.push_back({.host = host, .one_shot = one_shot});
  return all;
}

Timings random_timings(std::mt19937& random) {
  std::uniform_real_distribution<double> power(2, 6);
  Timings timings;
  for (auto& row : timings.of)
    for (double& time : row) time = std::pow(10, power(random));
  return timings;
}

// A path takes so many nanoseconds, and so many more for each byte.
struct Line {
  double begin;
  double byte;
};

Timings timings_of(const std::array<Line, 3>& lines) {
  Timings timings;
  for (std::size_t path = 0; path < lines.size(); ++path)
    for (std::size_t size = 0; size < kTried.size(); ++size)
      timings.of[path][size] = lines[path].begin + lines[path].byte * static_cast<double>(kTried[size]);
  return timings;
}

double crossing(const Line& first, const Line& second) {
  return (second.begin - first.begin) / (first.byte - second.byte);
}

bool off_by_two(std::size_t limit, double right) {
  const auto found = static_cast<double>(limit);
  return found >= right / 2 && found <= right * 2;
}

}  // namespace

TEST(no_other_limits_would_have_been_faster) {
  std::mt19937 random(1);
  const auto others = all_limits();
  for (int again = 0; again < 300; ++again) {
    const Timings timings = random_timings(random);
    const Limits found = limits_from(timings);
    CHECK(found.measured && found.host <= found.one_shot && found.one_shot <= calibration::kDeviceOneShot);
    for (const Limits& other : others) CHECK(cost(timings, found) <= cost(timings, other) + 1e-9);
  }
}

TEST(what_is_always_fastest_serves_everything) {
  std::mt19937 random(2);
  for (std::size_t fastest = 0; fastest < Timings::kPaths.size(); ++fastest) {
    Timings timings = random_timings(random);
    timings.of[fastest].fill(1);
    for (const std::size_t bytes : kTried) CHECK(row_of(limits_from(timings), bytes) == fastest);
  }
}

TEST(a_limit_is_off_by_two_at_most) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> power(10, 18);  // of two: 1 KiB to 256 KiB
  for (int again = 0; again < 300; ++again) {
    double first = std::exp2(power(random));
    double second = std::exp2(power(random));
    if (first > second) std::swap(first, second);
    const Line host{2000, 2};
    const Line one_shot{2000 + 1.5 * first, 0.5};
    const Line two_shot{one_shot.begin + 0.4 * second, 0.1};
    CHECK(std::abs(crossing(host, one_shot) - first) < 1 && std::abs(crossing(one_shot, two_shot) - second) < 1);
    const Limits found = limits_from(timings_of({host, one_shot, two_shot}));
    CHECK(off_by_two(found.host, first) && off_by_two(found.one_shot, second));
  }
}

// One that was disturbed does not move the limit.
TEST(a_single_time_that_is_wrong) {
  const std::array lines = {Line{2000, 2}, Line{50'000, 0.5}, Line{90'000, 0.1}};
  const Timings right = timings_of(lines);
  for (auto size = std::size_t{0}; size < kTried.size(); ++size) {
    Timings timings = right;
    for (auto& row : timings.of) row[size] *= 3;  // whatever it was, it was there on each path
    CHECK(limits_from(timings) == limits_from(right));
  }
}

TEST(the_first_round_does_not_count_and_the_last_one_comes_in_time) {
  for (const double time : {1.0, 1e3, 1e5, 1e9}) {
    int rounds = 0;
    const auto timed = [&](Path path, std::size_t) { return rounds == 0 && path == Path::host ? 1.0 : time; };
    const Limits found = find_limits(timed, [&](const Timings& mine) {
      ++rounds;
      return mine;
    });
    CHECK(found == Limits({.host = 0, .one_shot = 0, .measured = true}));  // all paths take the same
    const double round = time * static_cast<double>(kTried.size() * Timings::kPaths.size());
    const double enough = std::chrono::nanoseconds(calibration::kDeviceTrialTime).count();
    CHECK(rounds == 1 + std::clamp(static_cast<int>(std::ceil(enough / round)), 1, calibration::kDeviceTrialRounds));
  }
}

// The slowest rank counts in every round, and of the rounds the fastest.
TEST(all_ranks_find_the_same) {
  constexpr std::size_t kRanks = 3;
  std::mt19937 random(4);
  for (int again = 0; again < 50; ++again) {
    std::vector<std::array<Timings, kRanks>> times;
    for (int round = 0; round <= calibration::kDeviceTrialRounds; ++round) {
      times.emplace_back();
      for (Timings& one : times.back()) one = random_timings(random);
    }
    std::vector<Limits> found;
    Timings expected;
    std::size_t rounds = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      rounds = 0;
      const auto timed = [&](Path path, std::size_t bytes) {
        const auto row = std::ranges::find(Timings::kPaths, path) - Timings::kPaths.begin();
        return times[rounds][rank].of[std::size_t(row)][std::size_t(std::ranges::find(kTried, bytes) - kTried.begin())];
      };
      found.push_back(find_limits(timed, [&](const Timings& mine) {
        Timings slowest = mine;
        for (const Timings& one : times[rounds]) slowest.keep_slower(one);
        if (++rounds == 2) expected = slowest;
        if (rounds > 2) expected.keep_faster(slowest);
        return slowest;
      }));
    }
    CHECK(rounds >= 2);
    for (const Limits& one : found) CHECK(one == limits_from(expected));
  }
}
