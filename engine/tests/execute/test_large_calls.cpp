// How large calls are numbered and timed.
#include <vector>

#include "execute/large_calls.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kSecond = 1'000'000'000;

std::vector<double> seconds(const LargeCalls& calls, std::uint64_t first = 0) {
  std::vector<double> all;
  for (const auto& call : calls.since(first)) all.push_back(call.seconds);
  return all;
}

TEST(what_overlaps_with_the_call_before_counts_once) {
  LargeCalls calls(100);
  const auto first = calls.begin(Collective::all_reduce, kBytes, 1 * kSecond);
  const auto second = calls.begin(Collective::all_gather, 2 * kBytes, 2 * kSecond);
  calls.end(first, 5 * kSecond);
  CHECK((seconds(calls) == std::vector<double>{4, -1}));
  calls.end(second, 6 * kSecond);
  const auto third = calls.begin(Collective::all_reduce, kBytes, 8 * kSecond);
  calls.end(third, 10 * kSecond);
  CHECK((seconds(calls) == std::vector<double>{4, 1, 2}));
  CHECK((seconds(calls, 2) == std::vector<double>{2}));
  CHECK(calls.since(1).front().collective == Collective::all_gather && calls.since(1).front().bytes == 2 * kBytes);
  CHECK(calls.count() == 3 && calls.most_under_way() == 1);
}

TEST(a_call_whose_predecessor_is_not_over_is_not_known_yet) {
  LargeCalls calls(100);
  const auto first = calls.begin(Collective::all_reduce, kBytes, 1 * kSecond);
  calls.end(calls.begin(Collective::all_reduce, kBytes, 1 * kSecond), 2 * kSecond);
  CHECK((seconds(calls) == std::vector<double>{-1, -1}));
  calls.end(first, 3 * kSecond);
  CHECK(seconds(calls).front() == 2 && seconds(calls).back() < 0);
}

TEST(old_calls_are_forgotten_alike_whatever_they_took) {
  LargeCalls calls(1'000'000);
  for (std::int64_t i = 0; i < 1000; ++i) calls.end(calls.begin(Collective::all_reduce, kBytes, 2 * i), 2 * i + 1);
  const auto all = calls.since(0);
  CHECK(all.size() == 1000 && all.front().bytes == 0 && all.front().seconds < 0);
  CHECK(all.back().bytes == kBytes && all.back().seconds > 0);
  const auto late = calls.begin(Collective::all_reduce, kBytes, 3000);
  for (int i = 0; i < 1000; ++i) calls.end(calls.begin(Collective::all_reduce, kBytes, 4000 + i), 4001 + i);
  calls.end(late, 9000);  // nobody asks for it any more
  CHECK(calls.since(late).front().bytes == 0 && calls.most_under_way() == 1);
}

TEST(calls_stop_before_the_number_that_was_chosen) {
  LargeCalls calls(2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    CHECK(!calls.stops());
    calls.begin(Collective::all_reduce, kBytes, 1);
  }
  CHECK(calls.stops());
  calls.stop_before(3);
  CHECK(!calls.stops());
}

TEST(only_large_calls_of_one_size_on_all_ranks_are_counted) {
  const Fingerprint what{kBytes, -1, Collective::all_reduce, DType::uint8, Op::sum};
  CHECK(LargeCalls::counts(what, kBytes) && !LargeCalls::counts(what, kBytes - 1));
  for (const Collective other : {Collective::broadcast, Collective::reduce, Collective::all_to_all, Collective::send})
    CHECK(!LargeCalls::counts({kBytes, 0, other, DType::uint8, Op::sum}, kBytes));
  CHECK(!LargeCalls::counts({0, -1, Collective::all_gather, DType::uint8, Op::sum}, kBytes));
}

}  // namespace
