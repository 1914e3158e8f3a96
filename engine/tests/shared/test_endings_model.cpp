// Every order in which ranks begin, move on, fail, leave, die, hear of that and use their memory again. Memory of a
// call that has ended anywhere is never read or written by anybody again, and who comes late hears of the end.
#include <set>

#include "tests/check.hpp"
#include "tests/shared/endings_world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

struct Explored {
  std::size_t worlds = 0;
  std::string fault;
};

using Path = std::vector<EndingsWorld::Choice>;

Explored explore(const Endings& what, std::size_t limit = 60'000) {
  Explored result;
  std::set<std::uint64_t> seen;
  std::vector<Path> stack{{}};
  try {
    const auto world_after = [&](const Path& path) {
      auto world = std::make_unique<EndingsWorld>(what);
      for (const auto& choice : path) world->take(choice);
      return world;
    };
    while (!stack.empty()) {
      Path path = std::move(stack.back());
      stack.pop_back();
      auto here = world_after(path);
      for (bool fresh = true; fresh;) {
        if (++result.worlds > limit) throw std::logic_error("too large a world");
        const auto key = here->key();
        const auto choices = here->choices();
        bool moves = false;
        fresh = false;
        for (const auto& choice : choices) {
          path.push_back(choice);
          const bool last = &choice == &choices.back();
          std::unique_ptr<EndingsWorld> next;
          if (last)
            here->take(choice);
          else
            next = world_after(path);
          const auto then = (last ? here : next)->key();
          moves = moves || then != key;
          const bool unseen = seen.insert(then).second;
          if (unseen && last)
            fresh = true;
          else if (unseen)
            stack.push_back(path);
          if (!fresh) path.pop_back();
        }
        if (!moves) here->check_over();
      }
    }
  } catch (const std::exception& wrong) {
    result.fault = wrong.what();
  }
  return result;
}

void check_all(const char* name, const Endings& what) {
  const Explored found = explore(what);
  std::printf("   %s, %d ranks%s: %zu worlds %s\n", name, what.ranks, what.apart ? ", in the midst" : "", found.worlds,
              found.fault.c_str());
  std::fflush(stdout);
  CHECK(found.fault.empty());
}

const std::vector<std::pair<Way, const char*>> kWays = {
    {Way::one_shot, "in one shot"}, {Way::in_place, "in place"}, {Way::staged, "staged"},    {Way::fetched, "fetched"},
    {Way::slots, "slots"},          {Way::offers, "offers"},     {Way::portions, "portions"}};

}  // namespace

TEST(two_ranks_end_in_every_order) {
  for (const auto& [way, name] : kWays)
    if (way != Way::portions) check_all(name, {.way = way, .endings = 2});
}

TEST(three_ranks_end_in_every_order) {
  check_all("in one shot", {.way = Way::one_shot, .ranks = 3});
  check_all("slots", {.way = Way::slots, .ranks = 3});
  check_all("offers", {.way = Way::offers, .ranks = 3});
}

LONG_TEST(three_ranks_end_in_every_order_of_a_large_all_reduce) {
  check_all("in place", {.way = Way::in_place, .ranks = 3});
  check_all("staged", {.way = Way::staged, .ranks = 3});
  check_all("fetched", {.way = Way::fetched, .ranks = 3});
}

LONG_TEST(two_ranks_end_in_every_order_while_one_fills_a_slot_again) {
  check_all("portions", {.way = Way::portions, .endings = 2});
}

TEST(two_ranks_end_in_the_midst_of_what_they_do) {
  for (const auto& [way, name] : kWays)
    if (way != Way::portions) check_all(name, {.way = way, .apart = true, .interruptions = way == Way::staged ? 1 : 2});
}

TEST(what_is_wrong_with_an_end_is_found) {
  const auto found = [](Way way, EndingFault fault) {
    const Explored all = explore({.way = way, .apart = true, .interruptions = 1, .fault = fault});
    std::printf("   %s\n", all.fault.c_str());
    return !all.fault.empty();
  };
  CHECK(found(Way::in_place, EndingFault::early));
  CHECK(found(Way::offers, EndingFault::unmarked));
  CHECK(found(Way::fetched, EndingFault::unmarked));
}
