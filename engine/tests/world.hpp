// A job whose ranks are threads, each with an engine of its own, over real sockets and shared memory.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "link/shm.hpp"
#include "tests/calls.hpp"
#include "tests/check.hpp"

namespace paceline::test {

enum class Wire { shm, staged, tcp };

inline std::pair<int, int> tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener, 1) == 0);
  CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const int a = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(::connect(a, reinterpret_cast<sockaddr*>(&address), size) == 0);
  const int b = ::accept(listener, nullptr, nullptr);
  CHECK(b >= 0);
  ::close(listener);
  return {a, b};
}

inline Reduce reduce_of(int begin, int end, int of, std::vector<int> holders, int owner) {
  return {{begin, of}, {end, of}, std::move(holders), owner};
}

inline std::vector<int> everybody(int size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

inline Plan direct_plan(int size) {
  Plan plan{-1, "direct", false, {{}}};
  for (int rank = 0; rank < size; ++rank)
    plan.levels[0].push_back(reduce_of(rank, rank + 1, size, everybody(size), rank));
  return plan;
}

inline Plan ring_plan(int size) {
  Plan plan{-1, "ring", false, {}};
  for (int step = 1; step < size; ++step) {
    Level level;
    for (int block = 0; block < size; ++block) {
      const int from = (block + step) % size;
      const int to = (from + 1) % size;
      level.push_back(reduce_of(block, block + 1, size, {from, to}, to));
    }
    plan.levels.push_back(level);
  }
  return plan;
}

inline Plan flat_plan(int size) { return {-1, "flat", false, {{reduce_of(0, 1, 1, everybody(size), 0)}}}; }

inline Plans plans_for(int size, bool ring) {
  const auto one_shot = [](Plan plan) { return Plan{1024, "one_shot", true, std::move(plan.levels)}; };
  return {{"all_reduce", {one_shot(flat_plan(size)), ring ? ring_plan(size) : direct_plan(size)}},
          {"all_gather", {one_shot(direct_plan(size)), ring ? ring_plan(size) : direct_plan(size)}},
          {"broadcast", {one_shot(flat_plan(size)), flat_plan(size)}}};
}

struct Rank {
  Engine* engine;
  std::vector<int> peers;
  std::shared_ptr<Group> group;
  int rank;
  int size;
};

inline Error failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return {failure.kind, failure.what(), failure.culprit};
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Mapped once more, as in another process, so that a rank can take its memory away from its peers. ThreadSanitizer
// tells memory by its address and needs one mapping for both sides.
inline PeerArena seen_by_peers(const Arena& arena) {
#if defined(__SANITIZE_THREAD__)
  return PeerArena(arena);
#else
  return PeerArena(Descriptor(::dup(arena.descriptor())));
#endif
}

class World {
 public:
  // `wire(i, j)` says how ranks i < j are joined: over TCP exactly if they are on different machines.
  World(int size, const std::function<Wire(int, int)>& wire, bool ring = false, double timeout = 60)
      : World(size, wire, plans_for(size, ring), timeout) {}

  World(int size, const std::function<Wire(int, int)>& wire, const Plans& plans, double timeout = 60) : size_(size) {
    for (int rank = 0; rank < size; ++rank)
      engines_.push_back(std::make_unique<Engine>(arenas_.emplace_back(std::make_shared<Arena>(kArenaBytes)),
                                                  std::chrono::microseconds(5), name(rank)));
    std::vector<std::vector<int>> peers(static_cast<std::size_t>(size),
                                        std::vector<int>(static_cast<std::size_t>(size), -1));
    for (int i = 0; i < size; ++i) {
      for (int j = i + 1; j < size; ++j) {
        const auto a = static_cast<std::size_t>(i);
        const auto b = static_cast<std::size_t>(j);
        const std::string name_a = name(i);
        const std::string name_b = name(j);
        if (wire(i, j) == Wire::tcp) {
          const auto [x, y] = tcp_pair();
          peers[a][b] = engines_[a]->add_tcp_peer(Descriptor(x), name_b);
          peers[b][a] = engines_[b]->add_tcp_peer(Descriptor(y), name_a);
        } else {
          int pair[2];
          CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
          // One mapping for both sides: ThreadSanitizer tells memory by its address.
          const auto memory = map_link_memory(create_link_memory());
          const bool readable = wire(i, j) == Wire::shm;
          const auto reach = [&](int socket, const Arena& arena, int side) {
            return ShmPeer{Descriptor(socket), memory, seen_by_peers(arena), side, ::getpid(), readable};
          };
          peers[a][b] = engines_[a]->add_shm_peer(reach(pair[0], *arenas_[b], 0), name_b);
          peers[b][a] = engines_[b]->add_shm_peer(reach(pair[1], *arenas_[a], 1), name_a);
        }
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      auto group = engines_[i]->add_group(42, rank, peers[i], std::chrono::duration<double>(timeout), plans);
      ranks_.push_back({engines_[i].get(), peers[i], std::move(group), rank, size});
      servers_.emplace_back([engine = engines_[i].get()] { engine->serve(); });
      servers_.emplace_back([engine = engines_[i].get()] {
        while (!engine->notifications().empty()) {
        }
      });
    }
  }

  ~World() {
    // At once, because a rank that leaves may wait for the others. What it then says is no concern of this test.
    run([](Rank& rank) { failure_of([&] { rank.engine->close(); }); });
    for (auto& server : servers_) server.join();
  }

  void run(const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (auto& rank : ranks_) threads.emplace_back([&] { body(rank); });
    for (auto& thread : threads) thread.join();
  }

  Arena& arena(int rank) { return *shared_arena(rank); }
  const std::shared_ptr<Arena>& shared_arena(int rank) { return arenas_[static_cast<std::size_t>(rank)]; }
  Engine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }

 private:
  static std::string name(int rank) { return "rank " + std::to_string(rank) + " (thread)"; }

  static constexpr std::size_t kArenaBytes = std::size_t{256} << 20;

  int size_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Rank> ranks_;
  std::vector<std::thread> servers_;
};

template <typename T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace paceline::test
