// Arenas: what they give and take back, to their own process and to those that map them.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "memory/arena.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

}  // namespace

TEST(peers_do_not_reach_memory_that_was_detached) {
  Arena arena(64 * kMegabyte);
  const PeerArena peer{Descriptor(::dup(arena.descriptor()))};
  for (const std::size_t bytes : {std::size_t{70'000}, 3 * kMegabyte + 5}) {
    std::byte* const memory = arena.allocate(bytes);
    std::byte* const other = arena.allocate(bytes);
    std::fill_n(memory, bytes, std::byte{1});
    const auto at_peer = [&](const std::byte* at) { return peer.at(arena.offset_of(at), 1); };
    *at_peer(memory) = std::byte{2};
    CHECK(memory[0] == std::byte{2});
    arena.detach(memory, bytes);
    CHECK(memory[0] == std::byte{2} && memory[bytes - 1] == std::byte{1});  // it keeps what it holds
    *at_peer(memory) = *at_peer(memory + bytes - 1) = *at_peer(other) = std::byte{3};
    CHECK(memory[0] == std::byte{2} && memory[bytes - 1] == std::byte{1} && other[0] == std::byte{3});
    CHECK(!arena.holds(memory, bytes) && !arena.holds(memory + bytes - 1, 1) && arena.holds(other, bytes));
    arena.release(memory);
    CHECK(arena.allocate(bytes) != memory);  // peers may still write there
  }
}

TEST(an_arena_gives_memory_that_does_not_overlap_and_takes_it_back) {
  Arena arena(16 * kMegabyte);
  std::mt19937 random(5);
  std::vector<std::pair<std::byte*, std::size_t>> held;
  for (int round = 0; round < 3000; ++round) {
    if (held.size() > 40 || (!held.empty() && random() % 3 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      const auto [memory, bytes] = held.back();
      for (std::size_t i = 0; i < bytes; i += 61) CHECK(memory[i] == static_cast<std::byte>(bytes % 251));
      arena.release(memory);
      held.pop_back();
    } else {
      const std::size_t bytes = random() % 8 == 0 ? random() % (2 * kMegabyte + 5) : random() % 9000;
      std::byte* memory = nullptr;
      try {
        memory = arena.allocate(bytes);
      } catch (const std::bad_alloc&) {
        continue;
      }
      CHECK(reinterpret_cast<std::uintptr_t>(memory) % kCacheLine == 0);
      CHECK(arena.holds(memory, bytes));
      std::fill_n(memory, bytes, static_cast<std::byte>(bytes % 251));
      held.emplace_back(memory, bytes);
    }
  }
  for (const auto& [memory, bytes] : held) arena.release(memory);
  CHECK(arena.allocated() == 0);
  arena.release(arena.allocate(7 * kMegabyte));  // it has grown together again
}

TEST(an_arena_that_is_full_says_so) {
  Arena arena(4 * kMegabyte);
  bool refused = false;
  try {
    (void)arena.allocate(64 * kMegabyte);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK(refused && arena.allocated() == 0);
}

TEST(an_arena_keeps_to_the_users_limits) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr rlim_t kMost = 64 * kMegabyte;
    const rlimit limit{kMost, kMost};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Arena arena;
    ::_exit(arena.size() <= kMost ? 7 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(retired_memory_is_never_given_again) {
  Arena arena(4 * kMegabyte);
  std::byte* first = arena.allocate(1000);
  arena.retire(first + 500);
  arena.release(first);
  for (int i = 0; i < 100; ++i) {
    const std::byte* other = arena.allocate(1000);
    CHECK(other + 1000 <= first || other >= first + 1000);
  }
}

TEST(memory_that_peers_look_at_is_given_again_once_they_do_not) {
  Arena arena(64 * kMegabyte);
  bool abandoned = false;
  const std::vector<std::byte*> blocks{arena.allocate(10'000), arena.allocate(3 * kMegabyte)};
  const std::size_t before = arena.allocated();
  arena.release_once(blocks, [&] { return abandoned; });
  std::byte* const other = arena.allocate(10'000);
  CHECK(other != blocks[0] && arena.allocated() > before);
  abandoned = true;
  CHECK(arena.allocate(10'000) == blocks[0]);
  CHECK(arena.allocate(3 * kMegabyte) == blocks[1]);
}

TEST(a_forked_child_leaves_its_parents_arena_alone) {
  Arena arena(4 * kMegabyte);
  std::byte* memory = arena.allocate(1000);
  const pid_t child = ::fork();
  if (child == 0) {
    arena.release(memory);
    try {
      (void)arena.allocate(10);
    } catch (const std::bad_alloc&) {
      ::_exit(7);
    }
    ::_exit(1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(arena.allocated() >= 1000);
}

TEST(a_peers_arena_ends_where_it_ends) {
  const Arena arena(4 * kMegabyte);
  const Descriptor fd(::dup(arena.descriptor()));
  const PeerArena peer(fd);
  CHECK(peer.at(0, arena.size()) != nullptr);
  CHECK(peer.at(1, arena.size()) == nullptr);
  CHECK(peer.at(~std::uint64_t{0} - 5, 10) == nullptr);
  CHECK(peer.at(arena.size(), 0) != nullptr);
}

TEST(huge_pages_lie_where_they_were_asked_for_and_nowhere_else) {
  Arena arena(64 * kMegabyte);
  const PeerArena peer(Descriptor(::dup(arena.descriptor())));
  for (const std::byte* base : {arena.at(0), peer.at(0, 1)})
    CHECK(reinterpret_cast<std::uintptr_t>(base) % kHugePage == 0);
  const auto exist = [&](std::uint64_t offset) {
    struct stat status{};
    const off_t first = ::lseek(arena.descriptor(), static_cast<off_t>(offset), SEEK_DATA);
    CHECK(::fstat(arena.descriptor(), &status) == 0);
    return std::pair{first < 0 ? arena.size() : static_cast<std::size_t>(first),
                     static_cast<std::size_t>(status.st_blocks) * 512};
  };
  std::byte* memory = arena.allocate(2 * kHugePage + kMegabyte);
  const std::uint64_t begin = arena.offset_of(memory);
  const bool given = arena.use_huge_pages(memory, 2 * kHugePage + kMegabyte);
  const auto [first, all] = exist(begin);
  CHECK(first == begin && all <= 2 * kHugePage && (!given || all == 2 * kHugePage));
  CHECK(exist(begin + 2 * kHugePage).first == arena.size());
  for (std::size_t i = 0; i < 3 * kHugePage; i += 509) memory[i] = static_cast<std::byte>(i % 251);
  arena.use_huge_pages(memory, 3 * kHugePage);  // what is there stays there
  for (std::size_t i = 0; i < 3 * kHugePage; i += 509) CHECK(*peer.at(begin + i, 1) == static_cast<std::byte>(i % 251));
  arena.release(memory);
  CHECK(exist(begin).first == arena.size());

  memory = arena.allocate(kMegabyte);
  CHECK(arena.use_huge_pages(memory, kMegabyte));  // nothing fits in
  CHECK(exist(0).first == arena.size());
}
