// Worlds of ranks with a policy in one thread, in which events happen in random order, and what their users do.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "policy/plain_board.hpp"
#include "policy/policy_world.hpp"
#include "tests/check.hpp"
#include "tests/policy/requests.hpp"
#include "tests/sweep.hpp"

namespace paceline::test {

inline RequestPtr share(Request made) { return std::make_shared<const Request>(std::move(made)); }

inline PolicyWorld::BoardMaker plain(std::uint32_t slots = 64, std::size_t words = 4096) {
  return [=](int, int ranks) { return std::make_unique<PlainBoard>(ranks, slots, words); };
}

inline constexpr unsigned kSeeds = sweep(20U, 5U, 5U);

inline void let_some_happen(PolicyWorld& world, std::mt19937& random) {
  for (auto left = random() % 100; left > 0 && !world.events().empty(); --left) {
    const auto events = world.events();
    world.happen(events[random() % events.size()]);
  }
}

inline bool over(const PolicyWorld& world) {
  for (int rank = 0; rank < world.size(); ++rank)
    if (!world.rank(rank).under_way.empty() || world.rank(rank).joining) return false;
  return true;
}

// Until nothing is left to do; policies that poll never rest, and are given some cycles.
inline void let_all_happen(PolicyWorld& world, std::mt19937& random) {
  int left = 200 * world.size();
  for (auto events = world.events(); !events.empty() && (left > 0 || !over(world)); events = world.events(), --left) {
    world.happen(events[random() % events.size()]);
    CHECK(left > -20000);
  }
}

inline std::size_t issues(const PolicyWorld& world, int rank) {
  const auto& issued = world.rank(rank).issued;
  return issued.contains(0) ? issued.at(0).size() : 0;
}

inline const std::vector<std::vector<int>> kPlaces = {{0}, {0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 1, 2, 0}};

// Nothing is held back.
inline const PolicyOptions kAtOnce{.cycle_seconds = 0};

// Each rank submits 18 requests in an order of its own; `now_and_then` is called in between.
inline void submit_in_any_order(PolicyWorld& world, std::mt19937& random, const std::function<void()>& now_and_then) {
  std::vector<std::deque<RequestPtr>> todo(static_cast<std::size_t>(world.size()));
  for (auto& rank : todo) {
    for (int step = 0; step < 3; ++step)
      for (int i = 0; i < 6; ++i) {
        const std::string name = numbered("t", i);
        Request made = request(i > 3 ? numbered(name, step) : name, 4 + step / 2);
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
inline PolicyWorld::BoardMaker tight(unsigned seed) { return plain(seed % 2 ? 7 : 64, seed % 3 ? 4096 : 256); }

// What a rank's user does: in each step it submits these, in this order, and then waits for all of them.
struct User {
  std::vector<std::vector<RequestPtr>> steps;
  bool joins = false;  // after the last step
  std::size_t step = 0;
  std::size_t done = 0;
  bool waits = false;
};

// One thing that a user does; false if it has nothing to do before something happens.
inline bool go_on(PolicyWorld& world, int rank, User& user) {
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

inline void play(
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

inline const std::vector<std::vector<std::string>> kOrder = {{"t0", "t1"}, {"t2"}, {"t3", "t4", "t5"}};

}  // namespace paceline::test
