// Streams that share links, and programs on networks, whose times can be told beforehand.
#include "failure/error.hpp"
#include "simulate/network/program_run.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::simulate;

namespace {

bool about(double one, double other) { return one - other < 1e-9 && other - one < 1e-9; }

// Machines of one rank each below one switch, with these speeds of their links.
Tree star(std::initializer_list<double> speeds, double latency = 0, double burst = 0) {
  Tree tree;
  tree.nodes.push_back({});
  for (const double speed : speeds) {
    const int number = static_cast<int>(tree.nodes.size());
    tree.nodes.push_back({0, speed, speed, latency, burst});
    tree.leaves.push_back(number);
    tree.machine_of.push_back(number);
    tree.cpus_of.push_back(-1);
  }
  return tree;
}

// The times at which streams end.
std::vector<double> ends(Fluid& fluid, std::size_t streams) {
  std::vector<double> found(streams);
  std::vector<std::size_t> ended;
  for (std::size_t over = 0; over < streams;) {
    const double at = fluid.next();
    CHECK(at < Fluid::kNever);
    ended.clear();
    fluid.advance(at, ended);
    for (const std::size_t stream : ended) found[stream] = at;
    over += ended.size();
  }
  return found;
}

// Every rank has a part of the buffer, which all others send to it and which it then sends to them.
Plan direct(int size) {
  Plan plan;
  Level& level = plan.levels.emplace_back();
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(rank);
  for (int rank = 0; rank < size; ++rank) level.push_back({{rank, size}, {rank + 1, size}, all, rank});
  return plan;
}

std::vector<double> all_reduce(const Tree& tree, const Plan& plan, std::size_t count, const MessageCost& cost = {}) {
  const int size = static_cast<int>(tree.leaves.size());
  std::vector<Program> programs;
  for (int rank = 0; rank < size; ++rank) programs.push_back(lowered(plan, rank, size, count));
  return ProgramRun(tree, std::move(programs), cost).run();
}

}  // namespace

TEST(streams_get_max_min_fair_shares) {
  // Three streams leave machine 0 (9 bytes per second); one goes to machine 1, which takes 1 byte per second.
  Fluid fluid(star({9, 1, 100}));
  fluid.add({2, 5});
  fluid.add({2, 7});
  fluid.add({2, 7});
  fluid.start(0, 10);
  fluid.start(1, 8);
  fluid.start(2, 16);
  const auto found = ends(fluid, 3);
  CHECK(about(found[1], 2));             // both of them get 4
  CHECK(about(found[2], 3));             // then the rest, 8
  CHECK(about(found[0], 10));            // 1 all the time
  CHECK(about(fluid.carried()[2], 34));  // upwards from machine 0
  CHECK(about(fluid.carried()[5], 10));
}

TEST(directions_do_not_share) {
  Fluid fluid(star({10, 10}));
  fluid.add({2, 5});
  fluid.add({4, 3});
  fluid.start(0, 100);
  fluid.start(1, 100);
  for (const double at : ends(fluid, 2)) CHECK(about(at, 10));
}

TEST(a_bucket_lets_a_burst_through) {
  Fluid fluid(star({1e6, 1e6}, 0, 0.5));  // 0.5 MB at once
  fluid.add({2, 5});
  fluid.start(0, 2e6);
  CHECK(about(ends(fluid, 1)[0], 1.5));
  fluid.start(0, 1e6);  // at once again: nothing has come into the bucket
  CHECK(about(ends(fluid, 1)[0], 2.5));
}

TEST(a_direct_all_reduce_takes_both_halves) {
  // Each half sends two parts of 1000 bytes over every link: 2 s each way, and two hops of 0.1 s.
  for (const double seconds : all_reduce(star({1000, 1000, 1000}, 0.1), direct(3), 750)) CHECK(about(seconds, 4.4));
}

TEST(a_rank_takes_in_its_messages_one_after_the_other) {
  // Rank 0 takes in the two others' at 0 and 3 s, and sends them what it has made of them at 3 and 6 s.
  Plan plan;
  plan.levels = {{{{0, 1}, {1, 1}, {0, 1, 2}, 0}}};
  const auto found = all_reduce(star({1e12, 1e12, 1e12}), plan, 3, {.between = 3});
  CHECK(about(found[0], 6) && about(found[1], 3) && about(found[2], 6));
}

TEST(headers_take_their_time) {
  const MessageCost cost{.header = 1000};
  for (const double seconds : all_reduce(star({1000, 1000, 1000}), direct(3), 750, cost)) CHECK(about(seconds, 8));
}

TEST(ranks_that_share_a_cpu_wait_for_each_other) {
  const MessageCost cost{.shared_between = 1};
  Tree tree = star({1e12, 1e12});
  CHECK(all_reduce(tree, direct(2), 2, cost)[0] < 1e-3);
  tree.cpus_of = {0, 0};
  tree.cpus = {1};
  // Each of the 4 messages is sent and taken in on the same CPU, 1 s apart, and the last one is for whoever ends last.
  const auto found = all_reduce(tree, direct(2), 2, cost);
  CHECK(about(std::max(found[0], found[1]), 7));
}

TEST(chunks_overlap_and_keep_the_links_busy) {
  Plan plan = direct(4);
  plan.chunk_bytes = 4000;
  const Tree tree = star({1e6, 1e6, 1e6, 1e6}, 1e-3);
  const double busy = 2 * 0.75 * 400'000 / 1e6;
  const double seconds = all_reduce(tree, plan, 100'000)[0];
  CHECK(seconds >= busy);
  CHECK(seconds < busy + 0.02);
  CHECK(all_reduce(tree, direct(4), 100'000)[0] >= busy + 4e-3 - 1e-9);
}

TEST(what_is_no_tree_is_refused) {
  for (const auto& spoil :
       {+[](Tree& tree) { tree.nodes[1].parent = 2; }, +[](Tree& tree) { tree.nodes[1].up = 0; },
        +[](Tree& tree) { tree.nodes[1].latency = -1; }, +[](Tree& tree) { tree.leaves[0] = 9; },
        +[](Tree& tree) { tree.cpus_of[0] = 0; }, +[](Tree& tree) { tree.machine_of.pop_back(); }}) {
    Tree tree = star({1, 1});
    spoil(tree);
    bool refused = false;
    try {
      all_reduce(tree, direct(2), 1);
    } catch (const Failure& failure) {
      refused = failure.kind == ErrorKind::invalid;
    }
    CHECK(refused);
  }
}
