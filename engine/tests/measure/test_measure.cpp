// What the benchmarks measure with computes the right thing.
#include <vector>

#include "failure/error.hpp"
#include "measure/kernels.hpp"
#include "measure/limit.hpp"
#include "tests/check.hpp"

using namespace paceline;

const auto kLimits = {limit_all_reduce, limit_sendrecv};

TEST(the_limit_is_right_before_it_is_timed) {
  for (const auto limit : kLimits) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const std::size_t bytes : {4UL, 8UL, 64UL, 100UL, 70'000UL, 3UL << 20}) {
        const LimitTimes found = limit(ranks, bytes, 4);
        CHECK(found.wrong == 0);
        CHECK(found.times.size() == 4);
        for (const std::int64_t time : found.times) CHECK(time > 0);
        CHECK(found.cpu > 0);
      }
    }
  }
}

TEST(the_limit_refuses_what_makes_no_sense) {
  for (const auto limit : kLimits) {
    for (const auto& [ranks, iterations] : {std::pair(0, 1), std::pair(2, 0), std::pair(129, 1)}) {
      bool refused = false;
      try {
        limit(ranks, 8, iterations);
      } catch (const Failure& failure) {
        refused = failure.kind == ErrorKind::invalid;
      }
      CHECK(refused);
    }
  }
}

TEST(the_yardstick_and_the_kernel_do_the_same_work) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> b = {7, 5, 3, 1, -1, -3, -5};
  std::vector<float> sum(7);
  std::vector<float> added(7);
  const auto* first = reinterpret_cast<const std::byte*>(a.data());
  const auto* second = reinterpret_cast<const std::byte*>(b.data());
  CHECK(time_reduce({DType::float32, Op::sum}, reinterpret_cast<std::byte*>(sum.data()), first, second, 7, 3) > 0);
  CHECK(time_add(added.data(), a.data(), b.data(), 7, 3) > 0);
  CHECK(sum == added);
  CHECK((sum == std::vector<float>{8, 7, 6, 5, 4, 3, 2}));
}
