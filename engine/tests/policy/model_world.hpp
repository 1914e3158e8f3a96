// Small worlds of ranks with a policy, of which one thing after another can be chosen to happen: what ranks submit,
// what they are told and, where they share a board, every single access to it.
//
// A rank's state follows from what it was told, what it read in the log and what it wrote there, so that a hash of that
// stands for it, together with what it gave out; in the midst of a call, also from all that it saw since it began.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "policy/policy_world.hpp"
#include "tests/policy/fiber.hpp"
#include "tests/policy/requests.hpp"
#include "tests/policy/watched_board.hpp"

namespace paceline::test {

enum class Fault : std::uint8_t { none, late_marks, no_ring };

// What ranks do, and how much of what can happen is tried.
struct Scenario {
  std::string policy = "board";
  std::vector<int> machine_of = {0, 0};
  std::vector<std::vector<std::vector<Request>>> steps;  // of each rank: it waits after each step
  std::vector<bool> joins;                               // after its steps
  std::vector<Request> after;                            // of all ranks: once the join is over
  std::vector<std::vector<std::string>> order;           // for graph
  std::vector<std::string> changes;                      // of the policy: rank 0 asks for these at any times, in turn
  bool every_access = false;
  bool done_at_once = false;  // batches
  bool holds = false;         // board: what nobody waits for is held back, and no time ever passes
  int interruptions = 1000;   // of a call by other ranks, at most
  int looks = 0;              // of ranks that nobody has rung for, at most
  int deviations = 1000;      // from taking the first of what can happen, at most
  std::uint32_t slots = 8;
  std::uint64_t cycles = 3;  // within which a polling policy must have done all after users have done something
  Fault fault = Fault::none;
};

// `what` stays in place. Throws what a policy did wrong.
class ModelWorld final : private Watcher {
 public:
  explicit ModelWorld(const Scenario& what)
      : what_(what),
        histories_(what.machine_of.size()),
        within_(histories_.size()),
        fibers_(what.machine_of.size()),
        users_(what.machine_of.size()) {
    PolicyOptions options;
    options.cycle_seconds = (what.policy != "board" && what.policy != "switching") || what.holds ? 1 : 0;
    world_ = std::make_unique<PolicyWorld>(what.policy, options, what.machine_of, [this](int, int ranks) {
      auto board = std::make_unique<WatchedBoard>(static_cast<Watcher&>(*this), ranks, what_.slots,
                                                  what_.fault == Fault::late_marks);
      boards_.push_back(board.get());
      return board;
    });
    for (int rank = 0; rank < world_->size() && !what.order.empty() && what.changes.empty(); ++rank)
      world_->set_order(rank, what.order);
    last_cycle_.assign(histories_.size(), 1);
    ready_ = true;
  }
  ~ModelWorld() {
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
  ModelWorld(const ModelWorld&) = delete;
  ModelWorld& operator=(const ModelWorld&) = delete;

  struct Choice {
    enum class Kind : std::uint8_t { go_on, user, change, look, event } kind;
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
    for (int rank = 0; rank < world_->size() && looks_ < what_.looks; ++rank)
      if (!fibers_[static_cast<std::size_t>(rank)].running())
        found.push_back({Choice::Kind::look, rank, {WorldEvent::Kind::look, rank, 0}});
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
    if (choice.kind == Choice::Kind::look) ++looks_;
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

  const PolicyWorld& policies() const { return *world_; }

  // Whether this world is like another one: same memory, same histories.
  std::uint64_t key() const {
    std::uint64_t hash =
        what_.every_access ? mix(static_cast<std::uint64_t>(interruptions_), static_cast<std::uint64_t>(current_)) : 1;
    hash = mix(hash, static_cast<std::uint64_t>(looks_));
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
      if (user.step < what_.steps[static_cast<std::size_t>(rank)].size() || user.after < what_.after.size())
        throw std::logic_error("rank " + std::to_string(rank) + " never gets to its last step");
    }
    world_->check_over();
  }

 private:
  struct User {
    std::size_t step = 0;
    std::size_t done = 0;
    bool waits = false;
    bool joined = false;
    std::size_t after = 0;
  };

  void note(std::uint64_t word) override {
    auto& history = histories_[static_cast<std::size_t>(current_)];
    history = mix(history, word);
  }
  void note_within(std::uint64_t word) override {
    auto& within = within_[static_cast<std::size_t>(current_)];
    within = mix(within, word);
  }
  void before_access() override {
    note_within(histories_[static_cast<std::size_t>(current_)]);
    if (what_.every_access && ready_ && fibers_[static_cast<std::size_t>(current_)].running()) {
      const int mine = current_;
      fibers_[static_cast<std::size_t>(mine)].leave();
      current_ = mine;
    }
  }

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
    if (user.joined) return user.after < what_.after.size() && !world_->rank(rank).joining;
    if (user.step == what_.steps[at].size()) return what_.joins.size() > at && what_.joins[at];
    return user.done < what_.steps[at][user.step].size() || (!user.waits && tells_when_it_waits()) ||
           world_->rank(rank).under_way.empty();
  }

  void use(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    User& user = users_[at];
    note(99);
    if (user.joined) {
      poll_on();
      return world_->submit(rank, std::make_shared<const Request>(what_.after[user.after++]));
    }
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

  const Scenario& what_;
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
  int looks_ = 0;
  bool ready_ = false;
};

}  // namespace paceline::test
