// Every interleaving of small worlds. Worlds that are alike are gone into once.
#include "tests/check.hpp"
#include "tests/policy/explore.hpp"
#include "tests/policy/random_worlds.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

void check_all(const char* name, const Scenario& what) {
  const Explored found = explore(what);
  std::printf("   %s %s: %zu states, %zu ends %s\n", what.policy.c_str(), name, found.states, found.ends,
              found.fault.c_str());
  std::fflush(stdout);
  CHECK(found.fault.empty());
  CHECK(found.ends > 0);
}

// Each rank's steps, written as "ab cd": it waits where there is a space.
Scenario steps(const std::vector<std::string>& ranks) {
  Scenario made;
  made.machine_of.assign(ranks.size(), 0);
  for (const std::string& text : ranks) {
    auto& mine = made.steps.emplace_back(1);
    for (const char letter : text)
      if (letter == ' ')
        mine.emplace_back();
      else
        mine.back().push_back(request(std::string(1, letter)));
  }
  return made;
}

}  // namespace

TEST(two_ranks_with_every_access_to_the_board) {
  Scenario made = steps({"a", "a"});
  made.every_access = true;
  made.done_at_once = true;
  made.interruptions = 3;
  check_all("one request, 3 interruptions", made);
  made.interruptions = 2;
  made.steps = steps({"ab", "ba"}).steps;
  check_all("two requests, 2 interruptions", made);
  made.steps = steps({"a a", "a a"}).steps;
  check_all("twice the same, 2 interruptions", made);
  made.steps = steps({"a", "a"}).steps;
  made.steps[1][0][0] = request("a", 8);
  check_all("a disagreement, 2 interruptions", made);
  made.steps = steps({"a", ""}).steps;
  made.joins = {true, true};
  check_all("a join, 2 interruptions", made);
  made.steps = steps({"a", "a"}).steps;
  made.after = {request("a")};
  made.done_at_once = false;
  made.interruptions = made.looks = 1;
  check_all("the same after a join, 1 interruption, 1 look unasked", made);
}

TEST(who_waits_never_waits_for_what_is_held_back) {
  Scenario made = steps({"a", "a"});
  made.holds = made.every_access = made.done_at_once = true;
  made.interruptions = 3;
  check_all("one request, held back, 3 interruptions", made);
  made.interruptions = 1;
  made.steps = steps({"ab", "ba"}).steps;
  check_all("two requests, held back, 1 interruption", made);
}

TEST(small_worlds_in_every_order) {
  for (const char* policy : {"board", "cycle", "global_sleep", "nonblocking"}) {
    const bool polls = std::string(policy) != "board";
    for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}, {0, 0, 1}, {0, 1, 2}}) {
      if (polls && place != std::vector{0, 1}) continue;  // they do not look at places
      Scenario made =
          place.size() == 2 && !polls ? steps({"ab", "ba"}) : steps(std::vector<std::string>(place.size(), "a"));
      made.policy = policy;
      made.machine_of = place;
      made.done_at_once = polls;
      made.cycles = std::string(policy) == "nonblocking" ? 3 : 2;
      check_all(place.size() == 2 && !polls ? "two requests" : "one request", made);
      made = steps(std::vector<std::string>(place.size(), "a"));
      made.policy = policy;
      made.machine_of = place;
      made.done_at_once = polls;
      made.steps[1][0][0] = request("a", 8);
      made.cycles = std::string(policy) == "nonblocking" ? 3 : 2;
      check_all("a disagreement", made);
      made = steps(std::vector<std::string>(place.size(), "a"));
      made.policy = policy;
      made.machine_of = place;
      made.done_at_once = polls;
      made.steps[0].clear();
      made.joins.assign(place.size(), true);
      if (!polls) check_all("a join", made);  // of polling policies: too many, see test_policies.cpp
      if (polls || place.size() > 2) continue;
      made.after = {request("a")};
      made.looks = 1;
      check_all("a join, and the same after it", made);
    }
  }
}

// Polling policies have too many orders: random ones are in test_policies.cpp.
TEST(four_ranks_in_every_order) {
  for (const std::vector<int>& place : {std::vector{0, 0, 0, 0}, {0, 0, 1, 1}}) {
    Scenario made = steps({"a", "a", "a", "a"});
    made.machine_of = place;
    made.done_at_once = true;
    check_all(place[3] == 0 ? "one request" : "one request, two machines", made);
    if (place[3] != 0) continue;
    made.steps[2][0][0] = request("a", 8);
    check_all("a disagreement", made);
  }
}

TEST(orders_and_deviations_in_every_order) {
  for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}}) {
    Scenario made = steps({"a a", "a a"});
    made.policy = "graph";
    made.machine_of = place;
    made.done_at_once = true;
    made.order = {{"a"}};
    check_all("a step in order", made);
    if (place[1] != 0) continue;  // too many; random ones are in test_policies_ordered.cpp
    made.steps = steps({"ab b", "ab b"}).steps;
    made.order = {{"a"}, {"b"}};
    check_all("a deviation", made);
  }
}

// A change in the midst of anything: what was submitted before it is issued once, by the policy before or after it, and
// on all ranks alike.
TEST(changes_of_the_policy_in_every_order) {
  for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}}) {
    Scenario made = steps({"a", "a"});
    made.policy = "switching";
    made.machine_of = place;
    made.done_at_once = true;
    made.order = {{"a"}};
    made.changes = {"graph"};
    check_all("one request, to graph", made);
    made.changes = {"graph", "board"};
    check_all("one request, to graph and back", made);
    made.changes = {"graph"};
    if (place[1] == 0) {  // between machines too many
      made.steps = steps({"ab", "ba"}).steps;
      check_all("two requests, to graph", made);
      made.steps = steps({"a a", "a a"}).steps;
      check_all("a step in order, to graph", made);
    }
    made.steps = steps({"a", ""}).steps;
    made.joins = {true, true};
    check_all("a join, to graph", made);
  }
  Scenario made = steps({"a", "a"});
  made.policy = "switching";
  made.every_access = made.done_at_once = true;
  made.interruptions = 1;
  made.changes = {"graph"};
  check_all("one request, 1 interruption, to graph", made);
}

// To and from a policy that polls every order is too many. These are all that take the first of what can happen but for
// a few times (delay bounding, M. Emmi et al., POPL 2011); random ones are in test_policies_changing.cpp.
TEST(changes_to_and_from_a_policy_that_polls_with_few_deviations) {
  for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}})
    for (const std::vector<std::string>& changes :
         {std::vector<std::string>{"cycle"}, {"cycle", "board"}, {"graph", "cycle"}}) {
      Scenario made = steps({"a a", "a a"});
      made.policy = "switching";
      made.machine_of = place;
      made.done_at_once = true;
      made.order = {{"a"}};
      made.changes = changes;
      made.deviations = 4;
      check_all("twice the same, to cycle, 4 deviations", made);
      made.steps = steps({"ab", "ba"}).steps;
      check_all("two requests, to cycle, 4 deviations", made);
      made.steps = steps({"a", ""}).steps;
      made.joins = {true, true};
      check_all("a join, to cycle, 4 deviations", made);
    }
}

TEST(what_is_wrong_is_found) {
  Scenario made = steps({"a", "a"});
  made.fault = Fault::no_ring;
  CHECK(!explore(made).fault.empty());
  Scenario changed = made;
  changed.policy = "switching";
  changed.changes = {"cycle"};
  changed.done_at_once = true;
  changed.deviations = 3;
  CHECK(!explore(changed).fault.empty());
  made.fault = Fault::late_marks;
  CHECK(explore(made).fault.empty());
  // That a mark may come late shows only between the accesses of one call.
  made.every_access = made.done_at_once = true;
  made.interruptions = 2;
  made.steps = steps({"a a", "a a"}).steps;
  const Explored found = explore(made);
  std::printf("   %s\n", found.fault.c_str());
  std::fflush(stdout);
  CHECK(found.fault.find("never gets to its last step") != std::string::npos);
}

TEST(a_size_of_batches_holds_from_the_next_cut_on_in_every_interleaving) {
  for (const auto& place : std::vector<std::vector<int>>{{0, 0}, {0, 1}}) {
    // One choice after another, all of them: what is chosen at each fork, and among how many.
    std::vector<std::pair<std::size_t, std::size_t>> forks;
    std::size_t worlds = 0;
    do {
      ++worlds;
      PolicyWorld world("board", {}, place, plain());
      std::array<int, 2> done{};
      for (std::size_t depth = 0;; ++depth) {
        std::vector<int> able;
        for (int rank = 0; rank < 2; ++rank)
          if (done[static_cast<std::size_t>(rank)] < 3 - rank) able.push_back(rank);
        const auto events = world.events();
        if (able.empty() && events.empty()) break;
        if (depth == forks.size()) forks.emplace_back(0, able.size() + events.size());
        const std::size_t choice = forks[depth].first;
        if (choice >= able.size()) {
          world.happen(events[choice - able.size()]);
          continue;
        }
        const int rank = able[choice];
        const int what = done[static_cast<std::size_t>(rank)]++;
        if (rank == 0 && what == 1)
          world.tune(0, 0);
        else
          world.submit(rank, share(request(rank == 0 ? (what == 0 ? "a" : "b") : (what == 0 ? "b" : "a"))));
      }
      world.check_over();
      CHECK(issues(world, 0) == 2);  // nothing is together: at most one was ready before the change
      while (!forks.empty() && ++forks.back().first == forks.back().second) forks.pop_back();
    } while (!forks.empty());
    CHECK(worlds > 100);
  }
}
