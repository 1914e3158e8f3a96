// Small all-reduces among machines on which a leader speaks for all: exact, in turn with whatever else there is, and
// what goes wrong is named on every machine.
#include <algorithm>
#include <deque>

#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

// Also one that is too large for the segment, and goes another way.
constexpr std::size_t kCounts[] = {0, 1, 3, 200, 256, 257, 1024, 8192, 8193};

// Ranks 0 to 2 and 3 to 5; the leaders, of which one is not the first, tell each other at once all that they have.
Plans three_and_three() {
  Plans plans = plans_for(6, false);
  const Level machines = {reduce_of(0, 1, 1, {0, 1, 2}, 0), reduce_of(0, 1, 1, {3, 4, 5}, 4)};
  const Level leaders = {reduce_of(0, 1, 1, {0, 4}, 0)};
  plans["all_reduce"] = {{kOneShotBytes, "exchange", true, {machines, leaders}}, direct_plan(6)};
  return plans;
}

Wire halves(int i, int j) { return (i < 3) == (j < 3) ? Wire::shm : Wire::tcp; }

// Ranks 0 and 1, 2 alone, 3 to 6: the second leader and then the third go by the first.
Plans tree_of_seven() {
  Plans plans = plans_for(7, false);
  plans["all_reduce"] = {{-1,
                          "tree",
                          false,
                          {{reduce_of(0, 1, 1, {0, 1}, 0), reduce_of(0, 1, 1, {3, 4, 5, 6}, 3)},
                           {reduce_of(0, 1, 1, {0, 2}, 0)},
                           {reduce_of(0, 1, 1, {0, 3}, 0)}}}};
  return plans;
}

Wire two_one_four(int i, int j) {
  const auto machine = [](int rank) { return rank < 2 ? 0 : rank < 3 ? 1 : 2; };
  return machine(i) == machine(j) ? Wire::staged : Wire::tcp;
}

int leader(const Rank& r) { return r.group->plans["all_reduce"][0].leader; }

void reduce_floats(Rank& r, std::size_t count) {
  std::vector<float> data(count, 1);
  all_reduce(*r.engine, *r.group, bytes(data), count, DType::float32, Op::sum, 1, Mode::blocking);
}

void check_every_reduction(Rank& r) {
  for (const std::size_t count : kCounts) {
    for (const Op op : {Op::sum, Op::avg, Op::max, Op::premul_sum}) {
      std::vector<double> data(count);
      const auto part = [&](std::size_t i, int rank) { return static_cast<double>((i % 97 + 1) * 420) * (rank + 1); };
      for (std::size_t i = 0; i < count; ++i) data[i] = part(i, r.rank);
      all_reduce(*r.engine, *r.group, bytes(data), count, DType::float64, op, 0.5, Mode::blocking);
      for (std::size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (int rank = 0; rank < r.size; ++rank) sum += part(i, rank);
        CHECK(data[i] == (op == Op::sum   ? sum
                          : op == Op::avg ? sum / r.size
                          : op == Op::max ? part(i, r.size - 1)
                                          : sum / 2));
      }
    }
  }
}

}  // namespace

TEST(the_leader_is_who_has_all_of_its_machine_while_the_others_are_out_of_the_rest) {
  const Plan plan = three_and_three()["all_reduce"][0];
  CHECK(leader_of(plan, std::vector{0, 1, 2}) == 0);
  CHECK(leader_of(plan, std::vector{3, 4, 5}) == 4);
  CHECK(leader_of(plan, std::vector{0, 1}) == -1);
  CHECK(leader_of(plan, std::vector{0, 1, 2, 3}) == -1);
  CHECK(leader_of(ring_plan(6), std::vector{0, 1, 2}) == -1);
  CHECK(leader_of(flat_plan(6), std::vector{0, 1, 2, 3, 4, 5}) == -1);
  Plan halved = plan;
  halved.levels[0] = {reduce_of(0, 1, 2, {0, 1, 2}, 0), reduce_of(1, 2, 2, {0, 1, 2}, 1)};
  CHECK(leader_of(halved, std::vector{0, 1, 2}) == -1);
  Plan two_leaders = plan;
  two_leaders.levels[1].push_back(reduce_of(0, 1, 1, {1, 4}, 4));
  CHECK(leader_of(two_leaders, std::vector{0, 1, 2}) == -1);
  CHECK(leader_of(two_leaders, std::vector{3, 4, 5}) == 4);
}

TEST(every_reduction_is_exact) {
  World exchange(6, halves, three_and_three());
  exchange.run([](Rank& r) {
    CHECK(leader(r) == (r.rank < 3 ? 0 : 4));
    check_every_reduction(r);
  });
  World tree(7, two_one_four, tree_of_seven());
  tree.run([](Rank& r) {
    CHECK(leader(r) == (r.rank < 2 ? 0 : r.rank == 2 ? -1 : 3));
    check_every_reduction(r);
  });
}

TEST(many_are_under_way_at_once_and_others_between_them) {
  World world(6, halves, three_and_three());
  world.run([](Rank& r) {
    std::deque<std::vector<std::int32_t>> sums;
    std::deque<std::vector<std::int32_t>> copies;
    std::vector<Handle> handles;
    for (std::size_t call = 0; call < 60; ++call) {
      const std::size_t count = 1 + call * 37 % 2000;
      auto& sum = sums.emplace_back(count, r.rank + static_cast<int>(call));
      handles.push_back(all_reduce(*r.engine, *r.group, bytes(sum), count, DType::int32, Op::sum, 1, Mode::async));
      auto& copy = copies.emplace_back(count, r.rank);
      handles.push_back(broadcast(*r.engine, *r.group, bytes(copy), count, DType::int32,
                                  static_cast<int>(call) % r.size, Mode::async));
    }
    barrier(*r.engine, *r.group, Mode::blocking);
    // Also from the last to the first: each waits for all before it.
    for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle)
      r.engine->wait(**handle, std::chrono::seconds(-1));
    for (std::size_t call = 0; call < 60; ++call) {
      const int sum = r.size * (r.size - 1) / 2 + r.size * static_cast<int>(call);
      CHECK(std::ranges::all_of(sums[call], [&](int value) { return value == sum; }));
      CHECK(std::ranges::all_of(copies[call], [&](int value) { return value == static_cast<int>(call) % r.size; }));
    }
  });
}

TEST(who_calls_it_with_another_count_is_named_on_every_machine) {
  for (const int odd : {1, 4, 5}) {
    for (const std::size_t count : {2UL, 1000UL, 100'000UL}) {
      World world(6, halves, three_and_three());
      world.run([&](Rank& r) {
        // The news may find a rank still in the operation before.
        const auto error = failure_of([&] {
          reduce_floats(r, 4);
          reduce_floats(r, r.rank == odd ? count : 4);
        });
        CHECK(error.kind == ErrorKind::mismatch);
        CHECK(contains(error.message, "rank " + std::to_string(odd) + " (thread) calls all_reduce #1 float32[" +
                                          std::to_string(count) + "]"));
        CHECK(contains(error.message, "calls all_reduce #1 float32[4]"));
      });
    }
  }
}

TEST(who_never_comes_is_named_on_every_machine) {
  for (const int late : {0, 5}) {
    World world(6, halves, three_and_three(), 5);  // once all have said for whom they wait
    world.run([&](Rank& r) {
      reduce_floats(r, 1024);
      if (r.rank == late) return;
      const std::string name = "rank " + std::to_string(late) + " (thread)";
      std::vector<float> data(1024, 1);
      const auto sum =
          all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
      if ((r.rank < 3) == (late < 3)) {
        std::vector<Wait> found;
        do {
          found = r.engine->waits();
          std::this_thread::yield();
        } while (!found.empty() && found[0].missing.size() != 1);
        if (!found.empty()) {
          CHECK(found[0].missing[0].who == name);
          CHECK(found[0].missing[0].last == "all_reduce #0 float32[1024] SUM, which it finished");
        }
      }
      const auto error = failure_of([&] { r.engine->wait(*sum, std::chrono::seconds(-1)); });
      CHECK(error.kind == ErrorKind::timeout);
      CHECK(contains(error.message, "waits for " + name));
    });
  }
}

TEST(who_leaves_is_named_on_every_machine) {
  for (const int gone : {0, 2, 5}) {
    World world(6, halves, three_and_three());
    world.run([&](Rank& r) {
      if (r.rank == gone) {
        reduce_floats(r, 1024);
        return r.engine->close();
      }
      const auto error = failure_of([&] {
        for (int call = 0; call < 3; ++call) reduce_floats(r, 1024);
      });
      CHECK(error.kind == ErrorKind::peer_lost);
      CHECK(contains(error.message, "rank " + std::to_string(gone) + " (thread) has left the job"));
    });
  }
}
