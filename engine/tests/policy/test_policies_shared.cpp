// The board in shared memory, under real threads and processes, and what comes from outside as bytes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "failure/error.hpp"
#include "policy/make.hpp"
#include "policy/plain_board.hpp"
#include "policy/shared_board.hpp"
#include "tests/check.hpp"
#include "tests/policy/requests.hpp"

using namespace paceline;

namespace {

using Clock = std::chrono::steady_clock;

struct Memory {
  explicit Memory(const BoardShape& shape) : bytes(shape.bytes()) {
    at = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(at != MAP_FAILED);
  }
  ~Memory() { munmap(at, bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::span<std::byte> span() const { return {at, bytes}; }

  std::size_t bytes;
  std::byte* at;
};

RequestPtr shared(const std::string& name) { return std::make_shared<const Request>(request(name)); }

// One rank that submits `names` in each step in an order of its own; gives the names as they were issued.
std::vector<std::string> run_rank(BoardMemory& memory, int rank, int ranks, int steps, int names, bool joins) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  // No time passes here.
  const auto policy =
      make_policy("board", {.cycle_seconds = 0}, {rank, std::vector<int>(static_cast<std::size_t>(ranks))}, {&memory});
  std::vector<std::string> issued;
  std::size_t left = 0;
  bool joined = false;
  const auto drain = [&] {
    while (auto action = policy->next()) {
      joined = joined || std::holds_alternative<Joined>(*action);
      const auto* issue = std::get_if<Issue>(&*action);
      if (issue == nullptr) continue;
      CHECK(issue->error.empty());
      for (const auto& request : issue->requests) issued.push_back(request->name);
      left -= issue->requests.size();
    }
  };
  const auto deadline = Clock::now() + std::chrono::seconds(120);
  for (int step = 0; step < steps; ++step) {
    std::vector<int> order(static_cast<std::size_t>(names));
    for (int i = 0; i < names; ++i) order[static_cast<std::size_t>(i)] = i;
    std::ranges::shuffle(order, random);
    left += order.size();
    for (const int i : order) {
      // Every other name comes only once.
      const std::string name = numbered("t", i);
      policy->submit(shared(i % 2 ? numbered(name + "-", step) : name), 0);
      drain();
    }
    while (left > 0) {
      CHECK(Clock::now() < deadline);
      policy->look(0);
      drain();
      std::this_thread::yield();
    }
  }
  if (!joins) return issued;
  policy->join(0);
  drain();
  while (!joined) {
    CHECK(Clock::now() < deadline);
    policy->look(0);
    drain();
    std::this_thread::yield();
  }
  return issued;
}

// Memory of this process for boards that grow; threads see it where it is.
class Heap {
 public:
  BoardGrowth growth() {
    return {[this](std::size_t bytes) {
              const auto& added = added_.emplace_back(std::make_unique<std::uint64_t[]>(bytes / 8));
              return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(added.get()));
            },
            [](std::uint64_t place, std::size_t) { return reinterpret_cast<std::byte*>(place); }};
  }
  std::size_t added() const { return added_.size(); }

 private:
  std::vector<std::unique_ptr<std::uint64_t[]>> added_;  // by rank 0 alone
};

}  // namespace

TEST(threads_issue_the_same_in_the_same_order) {
  // Fewer slots than names in two steps, or than are under way in one, and a log that goes round many times.
  for (const auto& [ranks, slots] : {std::pair{2, 12}, {3, 12}, {2, 2}, {3, 1}}) {
    const BoardShape shape{.ranks = ranks, .slots = static_cast<std::uint32_t>(slots), .words = 4096};
    const Memory memory(shape);
    Heap heap;
    std::vector<std::vector<std::string>> issued(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        SharedBoard board(memory.span(), shape, heap.growth());
        issued[static_cast<std::size_t>(rank)] = run_rank(board, rank, ranks, 150, 10, true);
      });
    for (auto& thread : threads) thread.join();
    CHECK(issued[0].size() == 1500);
    CHECK(heap.added() > 0);
    for (const auto& other : issued) CHECK(other == issued[0]);
  }
}

TEST(a_killed_process_leaves_nobody_spinning) {
  const BoardShape shape{.ranks = 2, .slots = 64, .words = 4096};
  const Memory memory(shape);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    SharedBoard board(memory.span(), shape);
    const auto policy = make_policy("board", {.cycle_seconds = 0}, {1, {0, 0}}, {&board});
    for (int i = 0;; ++i) {
      policy->submit(shared(numbered("t", i % 32)), 0);
      while (policy->next()) {
      }
      while (policy->counters().issued <= static_cast<std::uint64_t>(i)) {
        policy->look(0);
        while (policy->next()) {
        }
        std::this_thread::yield();
      }
    }
  }
  SharedBoard board(memory.span(), shape);
  const auto policy = make_policy("board", {.cycle_seconds = 0}, {0, {0, 0}}, {&board});
  std::uint64_t submitted = 0;
  for (; submitted < 200; ++submitted) {
    policy->submit(shared(numbered("t", submitted % 32)), 0);
    while (policy->counters().issued <= submitted) {
      policy->look(0);
      while (policy->next()) {
      }
      std::this_thread::yield();
    }
  }
  CHECK(kill(child, SIGKILL) == 0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  // Every call comes back, and the request waits for the rank that is gone.
  for (int i = 0; i < 40; ++i) {
    const auto mine = shared(numbered("after", i));
    if (i < 20) policy->submit(mine, 0);
    policy->look(0);
    while (policy->next()) {
    }
    if (i < 20) CHECK(policy->missing(*mine) == std::vector<int>{1});
  }
}

// Nobody need be woken for a description, unless another rank has written behind it and found that it could not be
// read.
TEST(ranks_are_woken_for_an_entry_that_kept_others_from_being_read) {
  class Overtaken final : public PlainBoard {
   public:
    using PlainBoard::PlainBoard;
    bool overtaken() const override { return true; }
  };
  const auto rings = [](BoardMemory& memory) {
    const auto policy = make_policy("board", {.cycle_seconds = 0}, {0, {0, 0}}, {&memory});
    policy->submit(shared("t"), 0);
    bool any = false;
    while (const auto action = policy->next()) any = any || std::holds_alternative<Ring>(*action);
    return any;
  };
  PlainBoard plain(2, 64, 4096);
  Overtaken overtaken(2, 64, 4096);
  CHECK(!rings(plain));
  CHECK(rings(overtaken));
}

TEST(a_board_says_what_it_needs) {
  const BoardShape shape{.ranks = 2, .slots = 64, .words = 4096};
  const Memory memory(shape);
  for (const auto& [bytes, wrong] : {std::pair{shape.bytes() - 1, shape}, {shape.bytes(), {2, 64, 4095}}}) {
    bool refused = false;
    try {
      SharedBoard board(memory.span().first(bytes), wrong);
    } catch (const Failure& failure) {
      refused = failure.kind == ErrorKind::invalid;
    }
    CHECK(refused);
  }
}

// What a policy sends, with bits changed, and bytes that never were a message: refused, or taken for what it could be.
TEST(bytes_from_outside_never_do_harm) {
  std::mt19937 random(11);
  std::uint64_t refused = 0;
  std::uint64_t taken = 0;
  for (const char* name : {"board", "graph", "cycle", "switching"})
    for (int world = 0; world < 150; ++world) {
      const std::vector<int> machine_of = {0, 1, 1};
      std::vector<std::unique_ptr<PlainBoard>> boards;
      std::vector<std::unique_ptr<Policy>> ranks;
      // Ranks 1 and 2 share a machine; here each has its own idea of it, for what is sent is all that counts.
      for (std::size_t i = 0; i < boards_of(name); ++i)
        for (const int members : {1, 2}) boards.push_back(std::make_unique<PlainBoard>(members, 8, 4096));
      for (int rank = 0; rank < 3; ++rank) {
        std::vector<BoardMemory*> shared;
        for (std::size_t i = 0; i < boards_of(name); ++i)
          shared.push_back(boards[2 * i + static_cast<std::size_t>(machine_of[static_cast<std::size_t>(rank)])].get());
        ranks.push_back(make_policy(name, {}, {rank, machine_of}, shared));
      }
      std::vector<Send> sent;
      const auto drain = [&](Policy& policy) {
        for (int i = 0; i < 100; ++i) {
          const auto action = policy.next();
          if (!action) break;
          if (const auto* send = std::get_if<Send>(&*action)) sent.push_back(*send);
          if (std::holds_alternative<Sleep>(*action)) policy.wake(1);
          if (const auto* words = std::get_if<Synchronise>(&*action)) policy.synchronised(words->words, 1);
        }
      };
      for (int turn = 0; turn < 40; ++turn) {
        const auto at = random() % 3;
        Policy& policy = *ranks[at];
        std::vector<std::byte> message;
        if (!sent.empty() && random() % 4 != 0) {
          message = sent[random() % sent.size()].message;
          for (auto flips = random() % 4; flips > 0 && !message.empty(); --flips)
            message[random() % message.size()] ^= static_cast<std::byte>(1U << random() % 8);
          if (random() % 8 == 0) message.resize(random() % (message.size() + 1));
        } else {
          message.resize(random() % 80);
          for (auto& byte : message) byte = static_cast<std::byte>(random() % 4 ? random() % 16 : 0);
        }
        try {
          if (turn % 5 == 0) policy.submit(shared(numbered("t", turn)), 1);
          if (turn % 7 == 0 && at == 0 && boards_of(name) > 1) policy.use(turn % 2 ? "graph" : "cycle", {{"t0", "t5"}});
          drain(policy);
          policy.receive(static_cast<int>(random() % 4) - 1 + (at == 0), message, 1);
          ++taken;
        } catch (const Failure& failure) {
          CHECK(failure.kind == ErrorKind::invalid);
          ++refused;
        }
        try {
          for (auto& rank : ranks) {
            rank->look(1);
            drain(*rank);
          }
        } catch (const Failure& failure) {
          CHECK(failure.kind == ErrorKind::invalid);
        }
      }
    }
  std::printf("   %lu refused, %lu taken\n", static_cast<unsigned long>(refused), static_cast<unsigned long>(taken));
  CHECK(refused > 1000);
  CHECK(taken > 1000);
}
