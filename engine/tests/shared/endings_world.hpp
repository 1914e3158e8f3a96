// Small worlds of ranks that share memory, of which one thing after another can be chosen to happen: a rank begins a
// collective, moves it on, fails, leaves or dies, and hears of another one's end. Once its call is over, it uses its
// memory for something else. The operations and the segment are the engine's own; what the loop does for them is done
// here.
//
// A rank can be left in the midst of what it does wherever it reads another rank's memory, rings or looks for it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "execute/group.hpp"
#include "memory/arena.hpp"
#include "memory/cache.hpp"
#include "tests/policy/fiber.hpp"
#include "tests/shared/ending_call.hpp"
#include "tests/shared/sight.hpp"

namespace paceline::test {

// What is planted: a rank that fails does not mark what it has shown; a rank uses its memory before it has let go of
// it.
enum class EndingFault : std::uint8_t { none, unmarked, early };

struct Endings {
  Way way = Way::in_place;
  int ranks = 2;
  bool apart = false;     // in the midst of what ranks do, too
  int interruptions = 0;  // of these, at most
  int endings = 1;        // ranks that fail, leave or die unasked, at most
  EndingFault fault = EndingFault::none;
};

class EndingsWorld final : private Onlooker {
 public:
  enum class Act : std::uint8_t { begin, step, fail, leave, die, hear, go_on };
  struct Choice {
    Act act;
    int rank;
  };

  explicit EndingsWorld(const Endings& what)
      : what_(what), call_{what.way, what.ranks}, ranks_(static_cast<std::size_t>(what.ranks)) {
    for (int rank = 0; rank < what.ranks; ++rank) make(rank);
    for (int rank = 0; rank < what.ranks; ++rank) learn(rank);
    if (what.way == Way::fetched) choose_fetching();
  }
  ~EndingsWorld() {
    for (Rank& rank : ranks_) {
      try {
        while (rank.fiber.running()) rank.fiber.resume();
      } catch (const std::exception&) {
      }
    }
    for (Rank& rank : ranks_) rank.group.segment->depart();
    for (Rank& rank : ranks_) {
      rank.group.segment.reset();
      if (call_.shared())
        rank.arena->release(rank.memory);
      else
        spare().push_back(std::move(rank.own));
    }
  }
  EndingsWorld(const EndingsWorld&) = delete;
  EndingsWorld& operator=(const EndingsWorld&) = delete;

  std::vector<Choice> choices() const {
    std::vector<Choice> found;
    const bool goes_on = current_ >= 0 && of(current_).fiber.running() && !of(current_).dead;
    if (goes_on && interruptions_ == what_.interruptions) return {{Act::go_on, current_}};
    for (int rank = 0; rank < what_.ranks; ++rank) {
      const Rank& one = of(rank);
      if (one.dead) continue;
      const auto state = one.operation->state();
      const bool running = state == Operation::State::running;
      const bool may_end = endings_ < what_.endings;
      if (may_end && one.begun) found.push_back({Act::die, rank});
      if (one.fiber.running()) {
        found.push_back({Act::go_on, rank});
        continue;
      }
      if (one.left) continue;
      if (!one.group.error && !one.begun) found.push_back({Act::begin, rank});
      if (running) found.push_back({Act::step, rank});
      if (!one.group.error && may_end) found.push_back({Act::fail, rank});
      if (!one.group.error && may_end && !running) found.push_back({Act::leave, rank});
      if (!one.group.error && others_told(rank)) found.push_back({Act::hear, rank});
    }
    return found;
  }

  void take(const Choice& choice) {
    if (current_ >= 0 && choice.rank != current_ && of(current_).fiber.running() && !of(current_).dead)
      ++interruptions_;
    endings_ += choice.act == Act::fail || choice.act == Act::leave || choice.act == Act::die;
    current_ = choice.rank;
    Rank& rank = of(choice.rank);
    if (choice.act == Act::die) {
      rank.dead = true;
    } else if (choice.act == Act::go_on) {
      rank.fiber.resume();
    } else {
      rank.pauses = 0;
      const auto act = [this, choice] { carry_out(choice); };
      if (what_.apart)
        rank.fiber.start(act);
      else
        act();
    }
    for (int each = 0; each < what_.ranks; ++each) check(each);
  }

  // Whether this world is like another one.
  std::uint64_t key() const {
    std::uint64_t hash = what_.apart ? mixed(static_cast<std::uint64_t>(interruptions_), current_) : 1;
    hash = mixed(hash, endings_);
    for (const Rank& rank : ranks_) {
      const auto flags = rank.begun + 2 * rank.left + 4 * rank.dead + 8 * rank.told + 16 * rank.reused +
                         32 * rank.fiber.running() + 64 * rank.operation->needs_links() + 128 * bool(rank.group.error);
      hash = mixed(mixed(hash, flags), static_cast<int>(rank.operation->state()));
      hash = mixed(mixed(hash, rank.moves), rank.pauses);
      const SegmentMemory& own = rank.group.segment->own();
      hash = mixed(hash, own.cells[1].epoch.load());
      for (const auto* counter :
           {&own.claimed, &own.finished[1], &own.staged, &own.reduced, &own.taken, &own.done, &own.writing, &own.ended})
        hash = mixed(hash, counter->value.load());
      for (std::size_t at = 0; at < call_.numbers(); at += kSampled) hash = mixed(hash, rank.data()[at]);
    }
    return hash;
  }

  // Nothing more can happen, or nothing that changes anything.
  void check_over() const {
    for (int rank = 0; rank < what_.ranks; ++rank)
      if (!of(rank).dead && of(rank).operation->state() == Operation::State::running)
        throw std::logic_error("rank " + std::to_string(rank) + " waits for ever");
  }

 private:
  static constexpr std::size_t kSampled = 128;  // of so many numbers the first is looked at
  static constexpr EndingCall::Number kReused = 0x5a5a5a5a;

  struct Rank {
    std::shared_ptr<Arena> arena;
    std::vector<std::byte> own;
    std::byte* memory = nullptr;
    EndingCall::Number* data() const { return reinterpret_cast<EndingCall::Number*>(memory); }
    std::vector<std::unique_ptr<Link>> links;
    Group group;
    std::unique_ptr<SharedOperation> operation;
    Fiber fiber;
    int pauses = 0;  // in what it does now
    int moves = 0;
    bool begun = false;
    bool left = false;
    bool dead = false;
    bool told = false;  // the others can hear that it has failed
    bool reused = false;
  };

  template <typename Word>
  static std::uint64_t mixed(std::uint64_t hash, Word word) {
    hash ^= static_cast<std::uint64_t>(word) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    return hash ^ hash >> 33;
  }

  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  // Memory, which is dear, serves one world after another.
  static const std::shared_ptr<Arena>& arena_of(int rank) {
    static std::array<std::shared_ptr<Arena>, 3> all;
    auto& arena = all[static_cast<std::size_t>(rank)];
    if (arena == nullptr) arena = std::make_shared<Arena>(std::size_t{64} << 20);
    return arena;
  }

  using Spare = std::vector<std::vector<std::byte>>;
  static Spare& spare() {
    static Spare all;
    return all;
  }
  static std::vector<std::byte> private_memory(std::size_t bytes) {
    std::vector<std::byte> memory;
    if (!spare().empty()) {
      memory = std::move(spare().back());
      spare().pop_back();
    }
    if (memory.size() < bytes) memory.resize(bytes);
    return memory;
  }

  void make(int rank) {
    Rank& one = of(rank);
    one.arena = arena_of(rank);
    const std::size_t bytes = call_.numbers() * sizeof(EndingCall::Number);
    if (!call_.shared()) one.own = private_memory(bytes);
    one.memory = call_.shared() ? one.arena->allocate(bytes) : one.own.data();
    EndingCall::Number* const mine =
        call_.reduces() ? one.data() : one.data() + static_cast<std::size_t>(rank) * call_.given();
    std::fill_n(one.data(), call_.numbers(), 0);
    for (std::size_t at = 0; at < call_.given(); ++at) mine[at] = call_.given_by(rank, at);
    std::vector<int> members;
    for (int other = 0; other < what_.ranks; ++other) members.push_back(other);
    one.group.rank = rank;
    one.group.sharing = what_.ranks;
    one.group.members.resize(members.size());
    one.group.segment = std::make_unique<SharedSegment>(*one.arena, rank, members);
    one.group.segment->rounds_staged = 8;  // not the first: pipes are there
    one.group.method_tuner = MethodTuner(64);
    one.operation = call_.operation(one.memory, rank);
    for (int other = 0; other < what_.ranks; ++other) {
      Member& member = one.group.members[static_cast<std::size_t>(other)];
      member.description = "rank " + std::to_string(other) + " (model)";
      member.peer = other == rank ? -1 : other;
    }
  }

  void learn(int rank) {
    Rank& one = of(rank);
    for (int other = 0; other < what_.ranks; ++other) {
      if (other == rank) continue;
      one.links.push_back(std::make_unique<Sight>(static_cast<Onlooker&>(*this), rank, other, *of(other).arena,
                                                  what_.way == Way::fetched));
      one.group.members[static_cast<std::size_t>(other)].link = one.links.back().get();
      one.group.segment->learn(other, *one.links.back(), of(other).group.segment->offset());
    }
  }

  // Has the first rank ask for it in this call.
  void choose_fetching() {
    MethodTuner& tuner = of(0).group.method_tuner;
    const MethodLimits limits{ranks_.size(), true, caches().block()};
    for (int tries = 0; tries < 100; ++tries) {
      MethodTuner then = tuner;
      if (then.next(call_.given() * sizeof(EndingCall::Number), limits).kind == Method::Kind::fetched) return;
      tuner.next(call_.given() * sizeof(EndingCall::Number), limits);
    }
    throw std::logic_error("nothing is fetched");
  }

  bool gone(int rank) const override { return of(rank).dead; }
  void pause(int rank) override {
    Rank& one = of(rank);
    if (!one.fiber.running() || current_ != rank) return;
    ++one.pauses;
    one.fiber.leave();
  }

  bool others_told(int rank) const {
    for (int other = 0; other < what_.ranks; ++other)
      if (other != rank && (of(other).told || of(other).dead)) return true;
    return false;
  }

  void carry_out(const Choice& choice) {
    Rank& rank = of(choice.rank);
    switch (choice.act) {
      case Act::begin:
        rank.begun = true;
        rank.operation->start(rank.group, workspace_);
        return;
      case Act::step: return step(choice.rank);
      case Act::fail: return fail(choice.rank, {ErrorKind::timeout, "it takes too long"});
      case Act::hear: return fail(choice.rank, {ErrorKind::aborted, "another rank has failed"});
      default: rank.group.segment->end(Ending::left); rank.left = true;
    }
  }

  // As the loop does, where what another rank says of its end is still on its way.
  void step(int rank) {
    Rank& one = of(rank);
    Operation& operation = *one.operation;
    one.moves += operation.step();
    if (operation.trouble()) {
      fail(rank, operation.trouble());
    } else if (operation.complete()) {
      operation.finish();
      for (std::size_t at = 0; at < call_.numbers(); at += kSampled)
        if (one.data()[at] != call_.expected(at))
          throw std::logic_error("rank " + std::to_string(rank) + ": the call is over, and its result is wrong");
      reuse(one);
    }
  }

  static void unmark(SegmentMemory& memory) {
    memory.ended.value.store(0);
    for (Cell& cell : memory.cells) cell.epoch.fetch_and(~kGivenUp);
  }

  // The earlier, the worse.
  void reuse(Rank& rank) const {
    std::fill_n(rank.data(), call_.numbers(), kReused);
    rank.reused = true;
  }

  void fail(int rank, const Error& error) {
    Rank& one = of(rank);
    if (one.group.error) return;
    one.group.error = error;
    one.group.segment->end(Ending::failed);
    if (what_.fault == EndingFault::early) reuse(one);
    pause(rank);
    if (!one.operation->over() && one.begun) one.operation->group_failed(error);
    pause(rank);
    if (what_.fault == EndingFault::unmarked) unmark(one.group.segment->own());
    one.told = true;
    pause(rank);
    reuse(one);
  }

  void check(int rank) const {
    const Rank& one = of(rank);
    for (std::size_t at = 0; at < call_.numbers() && one.reused; at += kSampled)
      if (one.data()[at] != kReused)
        throw std::logic_error("rank " + std::to_string(rank) + ": memory was written to after the end of its call");
  }

  const Endings what_;
  const EndingCall call_;
  std::vector<std::byte> workspace_ = std::vector<std::byte>(std::size_t{64} << 10);
  std::vector<Rank> ranks_;
  int current_ = -1;
  int interruptions_ = 0;
  int endings_ = 0;
};

}  // namespace paceline::test
