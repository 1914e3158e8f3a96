// Every interleaving of small worlds: what ranks hand in, what they are told, and, where they share a board, every
// single access to it. Worlds that are alike are gone into once.
//
// A rank's state follows from what it was told, what it read in the log and what it wrote there, so that a hash of that
// stands for it, together with what it gave out; in the midst of a call, also from all that it saw since it began.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "check.hpp"
#include "coordinate/plain_board.hpp"
#include "coordinate/policy_world.hpp"
#include "fiber.hpp"
#include "requests.hpp"

using namespace paceline;

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 33;
}

enum class Fault : std::uint8_t { none, late_marks, no_ring };

struct Case {
  std::string policy = "board";
  std::vector<int> machine_of = {0, 0};
  std::vector<std::vector<std::vector<Request>>> steps;  // of each rank: it waits after each step
  std::vector<bool> joins;                               // after its steps
  std::vector<std::vector<std::string>> order;           // for graph
  std::vector<std::string> changes;                      // of the policy: rank 0 asks for these at any times, in turn
  bool every_access = false;
  bool done_at_once = false;  // batches
  bool holds = false;         // board: what nobody waits for is held back, and no time ever passes
  int interruptions = 1000;   // of a call by other ranks, at most
  int deviations = 1000;      // from taking the first of what can happen, at most
  std::uint32_t slots = 8;
  std::uint64_t cycles = 3;  // within which a polling policy must have done all after users have done something
  Fault fault = Fault::none;
};

class World;

// Tells the world of every access, and waits for its turn before it.
class WatchedBoard : public BoardMemory {
 public:
  WatchedBoard(World& world, int ranks, std::uint32_t slots) : world_(world), board_(ranks, slots, 4096) {}

  int ranks() const override { return board_.ranks(); }
  std::uint32_t slots() const override { return board_.slots(); }
  std::size_t longest() const override { return board_.longest(); }
  void mark(std::uint32_t slot, int rank, std::uint64_t word) override;
  std::uint64_t marked(std::uint32_t slot, int rank) const override;
  bool claim(std::uint32_t slot, std::uint32_t round) override;
  void join(int rank, std::uint64_t word) override;
  std::uint64_t joined(int rank) const override;
  void want(bool begins) override;
  bool wanted() const override;
  bool append(std::span<const std::uint64_t> entry) override;
  bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) override;

  std::uint64_t contents() const { return mix(cells_, log_); }

 private:
  void flush_marks(int of);

  World& world_;
  PlainBoard board_;
  std::uint64_t cells_ = 0;  // of what is in which cell, in any order
  std::uint64_t log_ = 0;
  std::set<std::tuple<std::uint32_t, int, std::uint64_t>> late_;  // a fault: marks that are not visible yet
};

class World {
 public:
  explicit World(const Case& what)
      : what_(what),
        histories_(what.machine_of.size()),
        within_(histories_.size()),
        fibers_(what.machine_of.size()),
        users_(what.machine_of.size()) {
    PolicyOptions options;
    options.cycle_seconds = (what.policy != "board" && what.policy != "switching") || what.holds ? 1 : 0;
    world_ = std::make_unique<PolicyWorld>(what.policy, options, what.machine_of, [this](int, int ranks) {
      auto board = std::make_unique<WatchedBoard>(*this, ranks, what_.slots);
      boards_.push_back(board.get());
      return board;
    });
    for (int rank = 0; rank < world_->size() && !what.order.empty() && what.changes.empty(); ++rank)
      world_->set_order(rank, what.order);
    last_cycle_.assign(histories_.size(), 1);
    ready_ = true;
  }
  ~World() {
    for (Fiber& fiber : fibers_) {
      try {
        while (fiber.running()) {
          current_ = static_cast<int>(&fiber - fibers_.data());
          fiber.resume();
        }
      } catch (const std::exception&) {
      }
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  struct Choice {
    enum class Kind : std::uint8_t { go_on, user, change, event } kind;
    int rank;
    WorldEvent event;
  };

  std::vector<Choice> choices() const {
    std::vector<Choice> found;
    if (fibers_[static_cast<std::size_t>(current_)].running() && interruptions_ == what_.interruptions)
      return {{Choice::Kind::go_on, current_, {}}};
    for (int rank = 0; rank < world_->size(); ++rank)
      if (fibers_[static_cast<std::size_t>(rank)].running())
        found.push_back({Choice::Kind::go_on, rank, {}});
      else if (user_can(rank))
        found.push_back({Choice::Kind::user, rank, {}});
    if (changed_ < what_.changes.size() && !fibers_[0].running()) found.push_back({Choice::Kind::change, 0, {}});
    for (const WorldEvent& event : world_->events()) {
      if (fibers_[static_cast<std::size_t>(event.rank)].running()) continue;
      if (event.kind == WorldEvent::Kind::wake && what_.holds) continue;
      // nonblocking: waking up before the outcome is there changes nothing.
      if (event.kind == WorldEvent::Kind::wake && world_->rank(event.rank).gave) continue;
      if (event.kind == WorldEvent::Kind::wake &&
          world_->policy(event.rank).counters().cycles >= last_cycle_[static_cast<std::size_t>(event.rank)])
        continue;
      if (event.kind == WorldEvent::Kind::look && what_.fault == Fault::no_ring) continue;
      if (event.kind == WorldEvent::Kind::finish && what_.done_at_once)
        return {{Choice::Kind::event, event.rank, event}};
      found.push_back({Choice::Kind::event, event.rank, event});
    }
    return found;
  }

  void take(const Choice& choice) {
    if (choice.rank != current_ && fibers_[static_cast<std::size_t>(current_)].running()) ++interruptions_;
    current_ = choice.rank;
    Fiber& fiber = fibers_[static_cast<std::size_t>(choice.rank)];
    const auto act = [this, choice] {
      if (choice.kind == Choice::Kind::user) return use(choice.rank);
      if (choice.kind == Choice::Kind::change) return change();
      // A look that finds nothing changes nothing.
      if (choice.event.kind != WorldEvent::Kind::look) {
        note(static_cast<std::uint64_t>(choice.event.kind) + 100);
        note(static_cast<std::uint64_t>(choice.event.from));
      }
      world_->happen(choice.event);
    };
    if (choice.kind == Choice::Kind::go_on)
      fiber.resume();
    else if (what_.every_access)
      fiber.start(act);
    else
      act();
    if (!fiber.running()) within_[static_cast<std::size_t>(choice.rank)] = 0;
  }

  // Whether this world is like another one: same memory, same histories.
  std::uint64_t key() const {
    std::uint64_t hash =
        what_.every_access ? mix(static_cast<std::uint64_t>(interruptions_), static_cast<std::uint64_t>(current_)) : 1;
    for (int rank = 0; rank < world_->size(); ++rank) {
      const PolicyWorld::Rank& one = world_->rank(rank);
      hash = mix(hash, histories_[static_cast<std::size_t>(rank)]);
      hash = mix(hash, within_[static_cast<std::size_t>(rank)]);
      hash = mix(hash, one.rung + 2 * one.sleeping + 4 * one.gave + 8 * one.joins.size());
      hash = mix(hash, mix(one.under_way.size(), one.over.size()));
      hash = mix(hash, last_cycle_[static_cast<std::size_t>(rank)] - one.policy->counters().cycles);
      for (const auto& [channel, batches] : one.issued) hash = mix(hash, mix(channel, batches.size()));
      for (const auto& [channel, from] : one.cancelled) hash = mix(hash, mix(channel, from));
      hash = mix(hash, fibers_[static_cast<std::size_t>(rank)].running());
    }
    for (const WatchedBoard* board : boards_) hash = mix(hash, board->contents());
    return hash;
  }

  void check_over() const {
    for (int rank = 0; rank < world_->size(); ++rank) {
      const User& user = users_[static_cast<std::size_t>(rank)];
      if (user.step < what_.steps[static_cast<std::size_t>(rank)].size())
        throw std::logic_error("rank " + std::to_string(rank) + " never gets to its last step");
    }
    world_->check_over();
  }
  const PolicyWorld& policies() const { return *world_; }

  void note(std::uint64_t word) {
    auto& history = histories_[static_cast<std::size_t>(current_)];
    history = mix(history, word);
  }
  void note_within(std::uint64_t word) {
    auto& within = within_[static_cast<std::size_t>(current_)];
    within = mix(within, word);
  }
  void before_access() {
    note_within(histories_[static_cast<std::size_t>(current_)]);
    if (what_.every_access && ready_ && fibers_[static_cast<std::size_t>(current_)].running()) {
      const int mine = current_;
      fibers_[static_cast<std::size_t>(mine)].leave();
      current_ = mine;
    }
  }
  const Case& what() const { return what_; }

 private:
  using Fiber = paceline::test::Fiber;
  struct User {
    std::size_t step = 0;
    std::size_t done = 0;
    bool waits = false;
    bool joined = false;
  };

  bool tells_when_it_waits() const { return what_.policy == "graph" || what_.policy == "switching" || what_.holds; }

  void change() {
    note(98);
    poll_on();
    const std::string& name = what_.changes[changed_++];
    world_->use(name, name == "graph" ? what_.order : std::vector<std::vector<std::string>>{});
  }

  void poll_on() {
    last_cycle_.clear();
    for (int rank = 0; rank < world_->size(); ++rank)
      last_cycle_.push_back(world_->policy(rank).counters().cycles + what_.cycles);
  }

  bool user_can(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    const User& user = users_[at];
    if (user.step == what_.steps[at].size()) return what_.joins.size() > at && what_.joins[at] && !user.joined;
    return user.done < what_.steps[at][user.step].size() || (!user.waits && tells_when_it_waits()) ||
           world_->rank(rank).under_way.empty();
  }

  void use(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    User& user = users_[at];
    note(99);
    if (user.step == what_.steps[at].size()) {
      user.joined = true;
      poll_on();
      return world_->join(rank);
    }
    const auto& step = what_.steps[at][user.step];
    if (user.done < step.size()) poll_on();
    if (user.done < step.size()) return world_->submit(rank, std::make_shared<const Request>(step[user.done++]));
    if (!user.waits && tells_when_it_waits()) {
      user.waits = true;
      for (const Request& request : step) world_->await(rank, request.name);
    }
    if (!world_->rank(rank).under_way.empty()) return;
    ++user.step;
    user.done = 0;
    user.waits = false;
  }

  const Case& what_;
  std::vector<std::uint64_t> histories_;
  std::vector<std::uint64_t> within_;  // of the call that a rank is in
  std::vector<Fiber> fibers_;
  std::vector<User> users_;
  std::vector<WatchedBoard*> boards_;
  std::unique_ptr<PolicyWorld> world_;
  std::vector<std::uint64_t> last_cycle_;
  std::size_t changed_ = 0;
  int current_ = 0;
  int interruptions_ = 0;
  bool ready_ = false;
};

void WatchedBoard::flush_marks(int of) {
  for (const auto& [slot, rank, word] : late_)
    if (rank == of) board_.mark(slot, rank, word);
  std::erase_if(late_, [&](const auto& mark) { return std::get<1>(mark) == of; });
}

void WatchedBoard::mark(std::uint32_t slot, int rank, std::uint64_t word) {
  world_.before_access();
  cells_ ^= mix(mix(slot, static_cast<std::uint64_t>(rank)), board_.marked(slot, rank));
  cells_ ^= mix(mix(slot, static_cast<std::uint64_t>(rank)), word);
  if (world_.what().fault == Fault::late_marks)
    late_.emplace(slot, rank, word);
  else
    board_.mark(slot, rank, word);
}

std::uint64_t WatchedBoard::marked(std::uint32_t slot, int rank) const {
  world_.before_access();
  const std::uint64_t word = board_.marked(slot, rank);
  world_.note_within(word);
  return word;
}

bool WatchedBoard::claim(std::uint32_t slot, std::uint32_t round) {
  world_.before_access();
  const bool first = board_.claim(slot, round);
  world_.note_within(first);
  if (first) cells_ ^= mix(mix(slot, 77), round);
  return first;
}

void WatchedBoard::join(int rank, std::uint64_t word) {
  world_.before_access();
  cells_ ^= mix(static_cast<std::uint64_t>(rank) + 1000, board_.joined(rank));
  cells_ ^= mix(static_cast<std::uint64_t>(rank) + 1000, word);
  board_.join(rank, word);
}

std::uint64_t WatchedBoard::joined(int rank) const {
  world_.before_access();
  const std::uint64_t word = board_.joined(rank);
  world_.note_within(word);
  return word;
}

void WatchedBoard::want(bool begins) {
  world_.before_access();
  cells_ += begins ? 1 : ~std::uint64_t{0};
  board_.want(begins);
}

bool WatchedBoard::wanted() const {
  world_.before_access();
  const bool any = board_.wanted();
  world_.note_within(any);
  return any;
}

bool WatchedBoard::append(std::span<const std::uint64_t> entry) {
  world_.before_access();
  for (const std::uint64_t word : entry) {
    log_ = mix(log_, word);
    world_.note(word);
  }
  return board_.append(entry);
}

bool WatchedBoard::read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) {
  world_.before_access();
  flush_marks(rank);
  const bool any = board_.read(rank, position, entry);
  if (any)
    for (const std::uint64_t word : entry) world_.note(word);
  return any;
}

struct Explored {
  std::size_t states = 0;
  std::size_t ends = 0;
  std::string fault;  // what a policy did wrong
};

Explored explore(const Case& what, std::size_t limit = 150'000) {
  Explored result;
  std::map<std::uint64_t, int> seen;  // after how many deviations, at the least
  std::vector<std::vector<std::uint16_t>> stack{{}};
  while (!stack.empty()) {
    std::vector<std::uint16_t> path = std::move(stack.back());
    stack.pop_back();
    const auto deviations =
        static_cast<int>(std::ranges::count_if(path, [](std::uint16_t taken) { return taken > 0; }));
    try {
      World world(what);
      for (const std::uint16_t number : path) world.take(world.choices()[number]);
      for (;;) {
        const auto [at, fresh] = seen.emplace(world.key(), deviations);
        if (!fresh && at->second <= deviations) break;
        at->second = deviations;
        if (fresh && ++result.states > limit) throw std::logic_error("too large a world");
        const auto choices = world.choices();
        if (choices.empty()) {
          ++result.ends;
          world.check_over();
          break;
        }
        for (std::uint16_t other = 1; other < choices.size() && deviations < what.deviations; ++other) {
          stack.push_back(path);
          stack.back().push_back(other);
        }
        path.push_back(0);
        world.take(choices[0]);
      }
    } catch (const std::exception& wrong) {
      result.fault = wrong.what();
      return result;
    }
  }
  return result;
}

void check_all(const char* name, const Case& what) {
  const Explored found = explore(what);
  std::printf("   %s %s: %zu states, %zu ends %s\n", what.policy.c_str(), name, found.states, found.ends,
              found.fault.c_str());
  std::fflush(stdout);
  CHECK(found.fault.empty());
  CHECK(found.ends > 0);
}

// Each rank's steps, written as "ab cd": it waits where there is a space.
Case steps(const std::vector<std::string>& ranks) {
  Case made;
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
  Case made = steps({"a", "a"});
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
}

TEST(who_waits_never_waits_for_what_is_held_back) {
  Case made = steps({"a", "a"});
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
      Case made =
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
    }
  }
}

// Of polling policies these are too many: random ones are in test_policies.cpp.
TEST(four_ranks_in_every_order) {
  for (const std::vector<int>& place : {std::vector{0, 0, 0, 0}, {0, 0, 1, 1}}) {
    Case made = steps({"a", "a", "a", "a"});
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
    Case made = steps({"a a", "a a"});
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

// A change in the midst of anything: what was handed in before it is issued once, by the policy before or after it, and
// on all ranks alike.
TEST(changes_of_the_policy_in_every_order) {
  for (const std::vector<int>& place : {std::vector{0, 0}, {0, 1}}) {
    Case made = steps({"a", "a"});
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
  Case made = steps({"a", "a"});
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
      Case made = steps({"a a", "a a"});
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
  Case made = steps({"a", "a"});
  made.fault = Fault::no_ring;
  CHECK(!explore(made).fault.empty());
  Case changed = made;
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
