// Ranks that know the order of requests, and leave it.
#include "tests/policy/random_worlds.hpp"

using namespace paceline;
using namespace paceline::test;

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
          for (int i = 0; i < 6; ++i) requests.push_back(share(request(numbered("t", i))));
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
            Request made = request(numbered("t", i));
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
