// Policies in worlds of ranks in one thread, with events in random order.
#include <array>
#include <functional>
#include <random>
#include <set>

#include "check.hpp"
#include "coordinate/plain_board.hpp"
#include "coordinate/policy_world.hpp"
#include "coordinate/switching.hpp"
#include "failure/error.hpp"
#include "requests.hpp"

using namespace paceline;

namespace {

RequestPtr share(Request made) { return std::make_shared<const Request>(std::move(made)); }

PolicyWorld::BoardMaker plain(std::uint32_t slots = 64, std::size_t words = 4096) {
  return [=](int, int ranks) { return std::make_unique<PlainBoard>(ranks, slots, words); };
}

// Sanitizers, which take ten times as long, look at the same code with fewer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSeeds = 5;
#else
constexpr unsigned kSeeds = 20;
#endif

const std::vector<std::string> kPolicies = {"board", "cycle", "global_sleep", "nonblocking", "graph"};

void let_some_happen(PolicyWorld& world, std::mt19937& random) {
  for (auto left = random() % 100; left > 0 && !world.events().empty(); --left) {
    const auto events = world.events();
    world.happen(events[random() % events.size()]);
  }
}

bool over(const PolicyWorld& world) {
  for (int rank = 0; rank < world.size(); ++rank)
    if (!world.rank(rank).under_way.empty() || world.rank(rank).joining) return false;
  return true;
}

// Until nothing is left to do; policies that poll never rest, and are given some cycles.
void let_all_happen(PolicyWorld& world, std::mt19937& random) {
  int left = 200 * world.size();
  for (auto events = world.events(); !events.empty() && (left > 0 || !over(world)); events = world.events(), --left) {
    world.happen(events[random() % events.size()]);
    CHECK(left > -20000);
  }
}

std::size_t issues(const PolicyWorld& world, int rank) {
  const auto& issued = world.rank(rank).issued;
  return issued.contains(0) ? issued.at(0).size() : 0;
}

const std::vector<std::vector<int>> kPlaces = {{0}, {0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 1, 2, 0}};

}  // namespace

// Nothing is held back.
const PolicyOptions kAtOnce{.cycle_seconds = 0};

TEST(a_single_request_goes_out_with_the_last_mark) {
  PolicyWorld world("board", kAtOnce, {0, 0}, plain());
  world.submit(0, share(request("t")));
  CHECK(issues(world, 0) == 0);
  world.submit(1, share(request("t")));
  CHECK(issues(world, 1) == 1);
  CHECK(world.rank(0).rung);
  world.happen({WorldEvent::Kind::look, 0, 0});
  CHECK(issues(world, 0) == 1);
}

TEST(what_becomes_ready_during_a_batch_goes_out_together) {
  PolicyWorld world("board", kAtOnce, {0, 0}, plain());
  std::mt19937 random(1);
  for (const char* name : {"a", "b", "c", "d"}) world.submit(0, share(request(name)));
  for (const char* name : {"d", "c", "b", "a"}) world.submit(1, share(request(name)));
  CHECK(issues(world, 1) == 1);
  let_all_happen(world, random);
  CHECK(issues(world, 0) == 2);
  CHECK(world.rank(0).issued.at(0)[1].requests.size() == 3);
  world.check_over();
}

TEST(what_nobody_waits_for_is_gathered_for_a_while) {
  PolicyWorld world("board", {.cycle_seconds = 0.5}, {0, 0}, plain());
  for (const char* name : {"a", "b", "c"}) world.submit(0, share(request(name)));
  for (const char* name : {"c", "b", "a"}) world.submit(1, share(request(name)));
  CHECK(issues(world, 0) == 0);
  CHECK(issues(world, 1) == 0);
  CHECK(!world.rank(0).rung);
  // Who made the first of them ready looks to the time, and nobody else.
  const std::vector<WorldEvent> alarm{{WorldEvent::Kind::wake, 1, 0}};
  CHECK(world.events() == alarm);
  CHECK(world.rank(1).until == 1);
  world.happen(alarm[0]);
  CHECK(issues(world, 1) == 1);
  CHECK(world.rank(1).issued.at(0)[0].requests.size() == 3);
  CHECK(world.rank(0).rung);
  std::mt19937 random(1);
  let_all_happen(world, random);
  world.check_over();
}

TEST(what_somebody_waits_for_is_not_held_back) {
  for (const bool early : {true, false})
    for (const int waiter : {0, 1}) {
      if (early && waiter == 1) continue;
      PolicyWorld world("board", {.cycle_seconds = 0.5}, {0, 0}, plain());
      world.submit(0, share(request("a")));
      if (early) world.await(0, "a");
      world.submit(1, share(request("a")));
      if (!early) {
        CHECK(issues(world, 0) + issues(world, 1) == 0);
        world.await(waiter, "a");
      }
      CHECK(issues(world, early ? 1 : waiter) == 1);
      CHECK(world.rank(early ? 0 : 1 - waiter).rung);
      std::mt19937 random(1);
      let_all_happen(world, random);
      // Nobody waits any more.
      world.submit(0, share(request("a")));
      world.submit(1, share(request("a")));
      CHECK(issues(world, 1) == 1);
      let_all_happen(world, random);
      world.check_over();
    }
}

TEST(what_is_enough_for_a_batch_is_not_held_back) {
  PolicyWorld world("board", {.cycle_seconds = 0.5}, {0, 0}, plain());
  for (const int rank : {0, 1}) world.submit(rank, share(request("small")));
  CHECK(issues(world, 1) == 0);
  for (const int rank : {0, 1}) world.submit(rank, share(request("large", 1 << 18)));
  CHECK(issues(world, 1) == 1);
  CHECK(world.rank(1).issued.at(0)[0].requests.size() == 2);
}

namespace {

// Each rank hands in 18 requests in an order of its own; `now_and_then` is called in between.
void hand_in_in_any_order(PolicyWorld& world, std::mt19937& random, const std::function<void()>& now_and_then) {
  std::vector<std::deque<RequestPtr>> todo(static_cast<std::size_t>(world.size()));
  for (auto& rank : todo) {
    for (int step = 0; step < 3; ++step)
      for (int i = 0; i < 6; ++i) {
        Request made = request("t" + std::to_string(i) + (i > 3 ? std::to_string(step) : ""), 4 + step / 2);
        made.priority = static_cast<int>(random() % 3);
        if (i == 0) made.what.dtype = DType::float16;
        rank.push_back(share(made));
      }
    for (int step = 0; step < 3; ++step) std::shuffle(rank.begin() + step * 6, rank.begin() + step * 6 + 6, random);
  }
  for (;;) {
    std::vector<int> able;
    for (std::size_t rank = 0; rank < todo.size(); ++rank)
      if (!todo[rank].empty() && world.rank(static_cast<int>(rank)).under_way.size() < 6 &&
          !world.rank(static_cast<int>(rank)).under_way.contains(todo[rank].front()->name))
        able.push_back(static_cast<int>(rank));
    const auto events = world.events();
    if (able.empty() && (events.empty() || over(world))) break;
    const std::size_t choice = random() % (able.size() + events.size());
    if (choice < able.size()) {
      auto& mine = todo[static_cast<std::size_t>(able[choice])];
      world.submit(able[choice], mine.front());
      mine.pop_front();
    } else {
      world.happen(events[choice - able.size()]);
    }
    now_and_then();
  }
  for (const auto& rank : todo) CHECK(rank.empty());
  let_all_happen(world, random);
  world.check_over();
  for (int rank = 0; rank < world.size(); ++rank) {
    CHECK(world.rank(rank).over.size() == 18);
    for (const auto& [ended, error] : world.rank(rank).over) CHECK(error.empty());
  }
}

// Few slots and a short log, so that names give way to each other and ranks wait for room.
PolicyWorld::BoardMaker tight(unsigned seed) { return plain(seed % 2 ? 7 : 64, seed % 3 ? 4096 : 256); }

}  // namespace

TEST(any_order_and_any_delays_end_well_everywhere) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces)
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        std::mt19937 random(seed);
        PolicyWorld world(policy, {}, place, tight(seed));
        hand_in_in_any_order(world, random, [] {});
      }
}

TEST(all_cut_alike_while_the_size_of_batches_changes) {
  std::size_t fewest = 100;
  std::size_t most = 0;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("board", {}, place, tight(seed));
      hand_in_in_any_order(world, random, [&] {
        if (random() % 8 == 0) world.tune(0, std::array{0, 32, 48, 1024}[random() % 4]);
      });
      fewest = std::min(fewest, issues(world, 0));
      most = std::max(most, issues(world, 0));
    }
  CHECK(fewest < most);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // all of them take a minute there
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
#endif

TEST(only_rank_0_tunes_and_only_the_board) {
  const auto refusal = [](const std::string& policy, int rank) -> std::string {
    PolicyWorld world(policy, {}, {0, 1}, plain());
    try {
      world.tune(rank, 1024);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  CHECK(refusal("board", 0).empty());
  CHECK(refusal("board", 1) == "only rank 0 can tune, and tells the others; this is rank 1");
  for (const auto& policy : kPolicies)
    if (policy != "board")
      CHECK(refusal(policy, 0) == "only the policy board can change the size of its batches; choose it");
}

TEST(ranks_that_disagree_fail_with_both_sides_and_all_else_goes_on) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces) {
      if (place.size() < 2) continue;
      std::mt19937 random(7);
      for (int again = 0; again < 20; ++again) {
        PolicyWorld world(policy, {}, place, plain());
        for (int rank = 0; rank < world.size(); ++rank) {
          world.submit(rank, share(request("same")));
          world.submit(rank, share(request("t", rank == 1 ? 8 : 4)));
          let_some_happen(world, random);
        }
        let_all_happen(world, random);
        world.check_over();
        const std::string others = place.size() == 2 ? "rank 0" : place.size() == 4 ? "ranks 0, 2, 3" : "ranks 0, 2-4";
        for (int rank = 0; rank < world.size(); ++rank)
          for (const auto& [ended, error] : world.rank(rank).over)
            CHECK(error == (ended->name == "same" ? ""
                                                  : "ranks disagree about \"t\": " + others +
                                                        " gave all_reduce float32 4 SUM; rank 1 gave all_reduce "
                                                        "float32 8 SUM"));
        // The same name again, and this time all agree.
        for (int rank = 0; rank < world.size(); ++rank) world.submit(rank, share(request("t", 8)));
        let_all_happen(world, random);
        world.check_over();
        CHECK(world.rank(0).over.back().second.empty());
      }
    }
}

TEST(ranks_that_have_joined_take_part_until_all_have) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces)
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        std::mt19937 random(seed);
        PolicyWorld world(policy, {}, place, plain(seed % 2 ? 4 : 64));
        for (int epoch = 0; epoch < 2; ++epoch) {
          // Rank r has r + 1 steps to do.
          std::vector<int> steps(place.size());
          std::vector<bool> joined(place.size());
          for (;;) {
            std::vector<int> able;
            for (int rank = 0; rank < world.size(); ++rank)
              if (!joined[static_cast<std::size_t>(rank)] && world.rank(rank).under_way.empty()) able.push_back(rank);
            const auto events = world.events();
            if (able.empty() && (events.empty() || over(world))) break;
            const std::size_t choice = random() % (able.size() + events.size());
            if (choice >= able.size()) {
              world.happen(events[choice - able.size()]);
            } else {
              const int rank = able[choice];
              const auto at = static_cast<std::size_t>(rank);
              const bool last = steps[at] == rank;
              world.submit(rank, share(request("a")));
              world.submit(rank, share(request("unnamed" + std::to_string(steps[at]))));
              if (steps[at] > 0) world.submit(rank, share(request("late")));
              ++steps[at];
              if (last) {
                joined[at] = true;
                world.join(rank);
              }
            }
          }
          let_all_happen(world, random);
          world.check_over();
          for (int rank = 0; rank < world.size(); ++rank) {
            CHECK(world.rank(rank).joins.size() == static_cast<std::size_t>(epoch) + 1);
            CHECK(world.rank(rank).joins.back() == world.rank(0).joins.back());
            for (const auto& [ended, error] : world.rank(rank).over) CHECK(error.empty());
          }
        }
      }
}

TEST(what_a_joined_rank_cannot_take_part_in_fails) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces) {
      if (place.size() < 2) continue;
      std::mt19937 random(3);
      PolicyWorld world(policy, {}, place, plain());
      Request made = request("b");
      made.what.collective = Collective::broadcast;
      made.what.root = 0;
      const int last = world.size() - 1;
      world.join(last);
      let_some_happen(world, random);
      for (int rank = 0; rank < last; ++rank) world.submit(rank, share(made));
      let_some_happen(world, random);
      for (int rank = 0; rank < last; ++rank) world.join(rank);
      let_all_happen(world, random);
      world.check_over();
      for (int rank = 0; rank < last; ++rank) {
        CHECK(world.rank(rank).over.size() == 1);
        CHECK(world.rank(rank).over[0].second == "\"b\" is a broadcast float32 4 root 0, which rank " +
                                                     std::to_string(last) +
                                                     " cannot take part in, because it has joined");
      }
    }
}

TEST(a_bundle_is_issued_when_all_of_it_is_ready) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces) {
      std::mt19937 random(3);
      PolicyWorld world(policy, {}, place, plain());
      for (int step = 1; step < 4; ++step) {
        for (const char* name : {"x", "y", "z"})
          for (int rank = 0; rank < world.size(); ++rank) {
            Request made = request(name);
            made.bundle = {9, 3};
            CHECK(issues(world, rank) == static_cast<std::size_t>(step) - 1);
            world.submit(rank, share(made));
            if (*name != 'z') let_some_happen(world, random);
          }
        let_all_happen(world, random);
        world.check_over();
        CHECK(issues(world, 0) == static_cast<std::size_t>(step));
        CHECK(world.rank(0).issued.at(0).back().requests.size() == 3);
      }
    }
}

TEST(urgent_requests_go_first) {
  PolicyWorld world("board", kAtOnce, {0, 0}, plain());
  std::mt19937 random(3);
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, share(request("first")));
    for (int i = 0; i < 4; ++i) {
      Request made = request("t" + std::to_string(i));
      made.priority = i;
      made.prescale = 2 + i;  // so that they go out on their own
      world.submit(rank, share(made));
    }
  }
  let_all_happen(world, random);
  world.check_over();
  std::string order;
  for (const auto& batch : world.rank(0).issued.at(0)) order += batch.requests.at(0)->name + " ";
  CHECK(order == "first t3 t2 t1 t0 ");
}

TEST(no_room_is_said) {
  PolicyWorld world("board", {}, {0, 0}, plain(2));
  world.submit(0, share(request("a")));
  world.submit(0, share(request("b")));
  std::string said;
  try {
    world.policy(0).submit(share(request("c")), 0);
  } catch (const Failure& failure) {
    said = failure.what();
  }
  CHECK(said ==
        "there is no room for \"c\": 2 requests are under way, and no more may be; wait for some of them first");
}

TEST(missing_ranks_are_named) {
  PolicyWorld world("board", {}, {0, 0, 1, 1}, plain());
  std::mt19937 random(3);
  const auto mine = share(request("t"));
  world.submit(0, mine);
  let_all_happen(world, random);
  CHECK((world.policy(0).missing(*mine) == std::vector<int>{1, 2, 3}));
  world.submit(2, share(request("t")));
  world.submit(3, share(request("t")));
  let_all_happen(world, random);
  CHECK((world.policy(0).missing(*mine) == std::vector<int>{1}));
}

namespace {

// What a rank's user does: in each step it hands in these, in this order, and then waits for all of them.
struct User {
  std::vector<std::vector<RequestPtr>> steps;
  bool joins = false;  // after the last step
  std::size_t step = 0;
  std::size_t done = 0;
  bool waits = false;
};

// One thing that a user does; false if it has nothing to do before something happens.
bool go_on(PolicyWorld& world, int rank, User& user) {
  if (user.step == user.steps.size()) {
    if (!user.joins) return false;
    user.joins = false;
    world.join(rank);
    return true;
  }
  const auto& step = user.steps[user.step];
  if (user.done < step.size()) {
    world.submit(rank, step[user.done++]);
    return true;
  }
  if (!user.waits) {
    user.waits = true;
    for (const RequestPtr& made : step) world.await(rank, made->name);
    return true;
  }
  if (!world.rank(rank).under_way.empty()) return false;
  ++user.step;
  user.done = 0;
  user.waits = false;
  return true;
}

void play(
    PolicyWorld& world, std::vector<User>& users, std::mt19937& random,
    const std::function<void()>& now_and_then = [] {}) {
  for (int left = 100'000; left > 0; --left) {
    const auto events = world.events();
    const auto number = static_cast<int>(random() % (users.size() + events.size()));
    if (number < static_cast<int>(users.size())) {
      go_on(world, number, users[static_cast<std::size_t>(number)]);
    } else {
      world.happen(events[static_cast<std::size_t>(number) - users.size()]);
    }
    now_and_then();
    if (!over(world)) continue;
    bool all = true;
    for (int rank = 0; rank < world.size(); ++rank) {
      User& user = users[static_cast<std::size_t>(rank)];
      all = all && !user.joins && user.step == user.steps.size();
    }
    if (all && (events.empty() || left % 97 == 0)) {
      let_all_happen(world, random);
      return world.check_over();
    }
  }
  CHECK(!"it never ends");
}

const std::vector<std::vector<std::string>> kOrder = {{"t0", "t1"}, {"t2"}, {"t3", "t4", "t5"}};

}  // namespace

TEST(an_order_known_beforehand_needs_no_news) {
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("graph", {}, place, plain());
      std::vector<User> users(place.size());
      for (int rank = 0; rank < world.size(); ++rank) {
        world.set_order(rank, kOrder);
        for (int step = 0; step < 5; ++step) {
          auto& requests = users[static_cast<std::size_t>(rank)].steps.emplace_back();
          for (int i = 0; i < 6; ++i) requests.push_back(share(request("t" + std::to_string(i))));
          std::ranges::shuffle(requests, random);
        }
      }
      play(world, users, random);
      for (int rank = 0; rank < world.size(); ++rank) {
        CHECK(world.rank(rank).issued.at(1).size() == 12);
        CHECK(world.rank(rank).cancelled.empty());
        CHECK(world.rank(rank).said.empty());
      }
    }
}

TEST(steps_that_deviate_are_negotiated_and_never_stand_still) {
  std::uint64_t deviations = 0;
  std::uint64_t runs = 0;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < 100; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("graph", {}, place, plain(seed % 3 ? 64 : 9));
      std::vector<User> users(place.size());
      const int steps = 6;
      // What is left out, what is new, what changes: the same on all ranks, or they would wait for ever.
      std::array<unsigned, steps> what{};
      for (auto& mode : what) mode = random() % 6;
      for (int rank = 0; rank < world.size(); ++rank) {
        User& user = users[static_cast<std::size_t>(rank)];
        world.set_order(rank, kOrder);
        user.joins = seed % 2 == 0;
        // Some join earlier than others.
        const int mine = user.joins ? steps - static_cast<int>(random() % 3) : steps;
        for (int step = 0; step < mine; ++step) {
          auto& requests = user.steps.emplace_back();
          const unsigned mode = what[static_cast<std::size_t>(step)];
          for (int i = 0; i < 6; ++i) {
            if (mode == 1 && i == 3) continue;
            Request made = request("t" + std::to_string(i));
            if (mode == 2 && i == 1) made.what.count = 8;
            requests.push_back(share(made));
          }
          if (mode == 3) requests.push_back(share(request("metric")));
          std::ranges::shuffle(requests, random);
        }
      }
      play(world, users, random);
      for (int rank = 0; rank < world.size(); ++rank) {
        const auto& me = world.rank(rank);
        CHECK(me.said.size() == (world.policy(rank).counters().deviations > 0 ? 1U : 0U));
        for (const auto& [ended, error] : me.over) CHECK(error.empty());
        deviations += world.policy(rank).counters().deviations;
        runs += me.issued.size() - 1;
      }
    }
  CHECK(deviations > 1000);
  CHECK(runs > 1000);
}

// Which policies there were, how often they changed and how often that was refused: rank 0 asks now and then.
struct Changes {
  std::set<std::string> used;
  unsigned changed = 0;
  unsigned refused = 0;

  // `orders`: for users who say what they wait for.
  void ask(PolicyWorld& world, std::mt19937& random, bool orders) {
    note(world);
    if (random() % 16 != 0) return;
    const char* const name = Switching::kNames[random() % Switching::kNames.size()];
    const bool ordered = orders && name == std::string("graph") && random() % 3 != 0;
    world.use(name, ordered ? kOrder : std::vector<std::vector<std::string>>{});
    note(world);
  }
  void note(PolicyWorld& world) {
    const auto use = world.policy(0).in_use();
    if (use.name != last_) {
      ++changed;
      used.insert(last_ = use.name);
    }
    refused += use.refused;
  }

 private:
  std::string last_;
};

TEST(any_order_and_any_delays_end_well_while_the_policy_changes) {
  Changes changes;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("switching", {}, place, tight(seed));
      hand_in_in_any_order(world, random, [&] { changes.ask(world, random, false); });
    }
  CHECK(changes.used.size() == 3);
  CHECK(changes.changed > 100);
  CHECK(changes.refused == 0);
}

TEST(steps_of_any_kind_end_well_while_the_policy_changes) {
  Changes changes;
  std::uint64_t runs = 0;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < 10 * kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("switching", {}, place, plain(seed % 3 ? 64 : 13));
      std::vector<User> users(place.size());
      const int steps = 8;
      for (int rank = 0; rank < world.size(); ++rank) {
        User& user = users[static_cast<std::size_t>(rank)];
        user.joins = seed % 2 == 0;
        const int mine = user.joins ? steps - static_cast<int>(random() % 3) : steps;
        for (int step = 0; step < mine; ++step) {
          auto& requests = user.steps.emplace_back();
          for (int i = 0; i < 6; ++i) requests.push_back(share(request("t" + std::to_string(i))));
          if (step % 4 == 3) requests.push_back(share(request("metric")));
          for (int i = 0; step % 3 == 1 && i < 2; ++i) {
            Request made = request("bundled" + std::to_string(i));
            made.bundle = {static_cast<std::uint64_t>(step) + 1, 2};
            requests.push_back(share(made));
          }
          std::ranges::shuffle(requests, random);
        }
      }
      play(world, users, random, [&] { changes.ask(world, random, true); });
      for (int rank = 0; rank < world.size(); ++rank) {
        const auto& me = world.rank(rank);
        CHECK(me.joins.size() == (seed % 2 == 0 ? 1U : 0U));
        for (const auto& [ended, error] : me.over) CHECK(error.empty());
        runs += me.issued.size() - me.issued.contains(0);
      }
    }
  CHECK(changes.changed > 500);
  CHECK(changes.refused > 10);
  CHECK(runs > 50);
}

TEST(a_policy_is_not_changed_while_a_rank_has_joined) {
  PolicyWorld world("switching", kAtOnce, {0, 0}, plain());
  std::mt19937 random(1);
  world.join(1);
  world.use("cycle", {});
  let_all_happen(world, random);
  CHECK(world.policy(0).in_use().refused && world.policy(0).in_use().name == "board");
  world.submit(0, share(request("a")));
  let_all_happen(world, random);
  world.join(0);
  let_all_happen(world, random);
  world.use("cycle", {});
  CHECK(!world.policy(0).in_use().refused && world.policy(0).in_use().name == "cycle");
  world.submit(0, share(request("b")));
  world.submit(1, share(request("b")));
  let_all_happen(world, random);
  CHECK(world.policy(1).in_use().name == "cycle");
  world.join(0);
  for (int left = 100; left > 0 && !world.events().empty(); --left) world.happen(world.events()[0]);
  world.use("graph", kOrder);
  for (int left = 100; left > 0 && !world.events().empty(); --left) world.happen(world.events()[0]);
  CHECK(world.policy(0).in_use().refused);
  world.join(1);
  let_all_happen(world, random);
  world.check_over();
}

TEST(only_rank_0_of_who_may_change_does) {
  const auto refusal = [](const std::string& policy, int rank, const std::string& to) -> std::string {
    PolicyWorld world(policy, kAtOnce, {0, 0}, plain());
    try {
      world.policy(rank).use(to, {});
    } catch (const Failure& failure) {
      CHECK(failure.kind == ErrorKind::invalid);
      return failure.what();
    }
    return "";
  };
  CHECK(refusal("switching", 0, "graph").empty());
  CHECK(refusal("switching", 1, "graph") == "only rank 0 can change the policy, and tells the others; this is rank 1");
  CHECK(refusal("switching", 0, "nonblocking") == "no policy to change to: nonblocking");
  CHECK(refusal("board", 0, "graph") ==
        "the policy of this coordinator was chosen when it was made, and does not change");
}

TEST(ranks_with_different_orders_negotiate) {
  PolicyWorld world("graph", {}, {0, 0}, plain());
  std::mt19937 random(1);
  world.set_order(0, kOrder);
  world.submit(0, share(request("t0")));
  world.set_order(1, {{"t0"}});
  world.submit(1, share(request("t0")));
  let_all_happen(world, random);
  world.check_over();
  CHECK(world.rank(0).said ==
        std::vector<std::string>{"the ranks gave different orders of requests; requests are negotiated"});
}
