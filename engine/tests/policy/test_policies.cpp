// Policies in worlds of ranks in one thread: what is issued when, and that all ends well in any order.
#include "failure/error.hpp"
#include "policy/switching.hpp"
#include "tests/policy/random_worlds.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

const std::vector<std::string> kPolicies = {"board", "cycle", "global_sleep", "nonblocking", "graph"};

}  // namespace

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

TEST(the_more_has_gone_out_since_somebody_waited_the_larger_are_batches) {
  constexpr std::uint64_t kEach = std::uint64_t{1} << 19;
  constexpr std::uint64_t kLeast = 2 * kEach;
  constexpr std::uint64_t kMost = 8 * kEach;
  PolicyWorld world("board", {.cycle_seconds = 0.5}, {0, 0}, plain());
  // Everything but that time passes.
  const auto settle = [&] {
    for (bool more = true; more;) {
      more = false;
      for (const WorldEvent& event : world.events()) {
        if (event.kind == WorldEvent::Kind::wake) continue;
        world.happen(event);
        more = true;
        break;
      }
    }
  };
  const auto submit = [&](const std::string& name) {
    for (const int rank : {0, 1}) world.submit(rank, share(request(name, kEach / 4)));
  };
  for (int number = 0; number < 128; ++number) {
    submit(std::to_string(number % 32));
    settle();
  }
  std::uint64_t gone_out = 0;
  std::uint64_t last = 0;
  for (const auto& batch : world.rank(0).issued.at(0)) {
    const std::uint64_t worth_it = std::clamp(gone_out / 8, kLeast, kMost);
    last = batch.requests.size() * kEach;
    CHECK(last >= worth_it && last < worth_it + kEach);
    gone_out += last;
  }
  CHECK(last == kMost);
  submit("waited for");
  const std::size_t before = issues(world, 0);
  for (const int rank : {0, 1}) world.await(rank, "waited for");
  settle();
  CHECK(issues(world, 0) == before + 1);
  submit("a");
  submit("b");
  settle();
  CHECK(issues(world, 0) == before + 2);
  CHECK(world.rank(0).issued.at(0).back().requests.size() == kLeast / kEach);
}

TEST(any_order_and_any_delays_end_well_everywhere) {
  for (const auto& policy : kPolicies)
    for (const auto& place : kPlaces)
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        std::mt19937 random(seed);
        PolicyWorld world(policy, {}, place, tight(seed));
        submit_in_any_order(world, random, [] {});
      }
}

TEST(all_cut_alike_while_the_size_of_batches_changes) {
  std::size_t fewest = 100;
  std::size_t most = 0;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("board", {}, place, tight(seed));
      submit_in_any_order(world, random, [&] {
        if (random() % 8 == 0) world.tune(0, std::array{0, 32, 48, 1024}[random() % 4]);
      });
      fewest = std::min(fewest, issues(world, 0));
      most = std::max(most, issues(world, 0));
    }
  CHECK(fewest < most);
}

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
              world.submit(rank, share(request(numbered("unnamed", steps[at]))));
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
      Request made = request(numbered("t", i));
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
  PolicyWorld world("board", {}, {0, 0}, plain(1));
  const int most = 1 << BoardMemory::kDoublings;
  for (int i = 0; i < most; ++i) world.submit(0, share(request(numbered("t", i))));
  std::string said;
  try {
    world.policy(0).submit(share(request("c")), 0);
  } catch (const Failure& failure) {
    said = failure.what();
  }
  CHECK(said ==
        "there is no room for \"c\": 256 requests are under way, and no more may be; wait for some of them first");
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

TEST(who_holds_up_a_cycle_is_missing) {
  PolicyWorld world("cycle", {}, {0, 1, 1}, plain());
  const auto mine = share(request("t"));
  const auto list_from = [&](int rank) {
    for (const auto& event : world.events())
      if (event.kind == WorldEvent::Kind::deliver && event.from == rank) return event;
    throw std::logic_error("no list");
  };
  const auto all = [&](WorldEvent::Kind kind) {
    for (bool any = true; any;) {
      any = false;
      for (const auto& event : world.events())
        if (event.kind == kind && !std::exchange(any, true)) world.happen(event);
    }
  };
  world.submit(1, share(request("t")));
  world.submit(2, share(request("t")));
  all(WorldEvent::Kind::wake);
  all(WorldEvent::Kind::synchronise);
  // Rank 0 has told nobody yet that it has it, too; nor has rank 2 told rank 0.
  world.happen(list_from(1));
  CHECK((world.policy(0).missing(*mine) == std::vector<int>{2}));
  world.happen(list_from(2));
  world.submit(0, mine);
  CHECK(world.policy(0).missing(*mine).empty());
}
