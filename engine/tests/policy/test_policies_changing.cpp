// The policy changes while requests are submitted.
#include <set>

#include "failure/error.hpp"
#include "policy/switching.hpp"
#include "tests/policy/random_worlds.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

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

}  // namespace

TEST(any_order_and_any_delays_end_well_while_the_policy_changes) {
  Changes changes;
  for (const auto& place : kPlaces)
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 random(seed);
      PolicyWorld world("switching", {}, place, tight(seed));
      submit_in_any_order(world, random, [&] { changes.ask(world, random, false); });
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
          for (int i = 0; i < 6; ++i) requests.push_back(share(request(numbered("t", i))));
          if (step % 4 == 3) requests.push_back(share(request("metric")));
          for (int i = 0; step % 3 == 1 && i < 2; ++i) {
            Request made = request(numbered("bundled", i));
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
