// What ranks of one machine do in the memory that they share: all-reduces and exchanges of every kind of buffer.
#include <sched.h>

#include <algorithm>
#include <random>

#include "calibration/methods.hpp"
#include "memory/arena.hpp"
#include "shared/one_shot.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

using Counts = std::vector<std::size_t>;
// In one shot, staged, and so many that two ranks read each other's memory.
const Counts kReduced = sweep<Counts>({1, 5, 9'000, 20'011, 131'072, 131'073, 262'144, 700'001},
                                      {1, 5, 9'000, 131'073, 700'001}, {5, 9'000, 400'003});
const Counts kExchanged = sweep<Counts>({1, 700, 5'000, 400'001}, {1, 700, 5'000, 400'001}, {1, 5'000, 100'003});

// Memory of an arena for as long as this lives.
class Allocated {
 public:
  Allocated(Arena& arena, std::size_t bytes) : arena_(arena), memory_(arena.allocate(bytes)) {}
  ~Allocated() { arena_.release(memory_); }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  std::byte* get() const { return memory_; }

 private:
  Arena& arena_;
  std::byte* memory_;
};

// Every element tells its place and who contributed: any piece that is lost, doubled or misplaced shows.
std::int64_t element(std::size_t place, int contributed) { return static_cast<std::int64_t>(place * 16) + contributed; }

void fill(std::int64_t* data, std::size_t count, int rank) {
  test::fill(std::span(data, count), [&](std::size_t i) { return element(i, 1 << rank); });
}

void check_from(const std::int64_t* data, std::size_t count, int rank) {
  std::vector<std::int64_t> given(count);
  fill(given.data(), count, rank);
  CHECK(std::equal(data, data + count, given.begin()));
}

void check_sum(const std::int64_t* data, std::size_t count, int size) {
  const auto sum = filled<std::int64_t>(
      count, [&](std::size_t i) { return element(i * static_cast<std::size_t>(size), (1 << size) - 1); });
  CHECK(std::equal(data, data + count, sum.begin()));
}

void reduce_and_check(Rank& r, std::byte* memory, std::size_t count) {
  auto* data = reinterpret_cast<std::int64_t*>(memory);
  fill(data, count, r.rank);
  all_reduce(*r.engine, *r.group, memory, count, DType::int64, Op::sum, 1, Mode::blocking);
  check_sum(data, count, r.size);
}

}  // namespace

TEST(all_reduce_of_private_shared_and_mixed_buffers) {
  for (const auto& [size, wire] : {std::pair{2, Wire::shm}, {2, Wire::staged}, {3, Wire::shm}, {4, Wire::staged}}) {
    World world(size, [wire](int, int) { return wire; });
    world.run([&](Rank& r) {
      for (const std::size_t count : kReduced) {
        std::vector<std::int64_t> own(count);
        const Allocated shared(world.arena(r.rank), count * sizeof(std::int64_t));
        reduce_and_check(r, bytes(own), count);
        reduce_and_check(r, shared.get(), count);
        reduce_and_check(r, r.rank == 1 ? bytes(own) : shared.get(), count);
      }
    });
  }
}

// Rank 1 works in place, in an arena; the others have the result elsewhere, in an arena or not.
TEST(all_reduce_from_one_buffer_to_another) {
  for (const auto& [size, wire] : {std::pair{2, Wire::shm}, {2, Wire::staged}, {3, Wire::shm}}) {
    World world(size, [wire](int, int) { return wire; });
    world.run([&](Rank& r) {
      for (const std::size_t count : kReduced) {
        std::vector<std::int64_t> own(count);
        std::vector<std::int64_t> result(count);
        const Allocated shared(world.arena(r.rank), count * sizeof(std::int64_t));
        for (std::byte* to : {bytes(result), shared.get()}) {
          const bool in_place = r.rank == 1;
          std::byte* const source = in_place ? to : bytes(own);
          fill(reinterpret_cast<std::int64_t*>(source), count, r.rank);
          all_reduce(*r.engine, *r.group, source, to, count, DType::int64, Op::sum, 1, Mode::blocking);
          check_sum(reinterpret_cast<std::int64_t*>(to), count, r.size);
          if (in_place) continue;
          fill(result.data(), count, r.rank);
          CHECK(own == result);  // what it was
        }
      }
    });
  }
}

TEST(an_average_in_place_divides_once) {
  World world(3, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    constexpr std::size_t kCount = 100'003;
    const Allocated shared(world.arena(r.rank), kCount * sizeof(double));
    auto* data = reinterpret_cast<double*>(shared.get());
    for (const Op op : {Op::avg, Op::premul_sum}) {
      std::fill_n(data, kCount, 3.0 * (r.rank + 1));
      all_reduce(*r.engine, *r.group, shared.get(), kCount, DType::float64, op, 0.5, Mode::blocking);
      for (std::size_t i = 0; i < kCount; ++i) CHECK(data[i] == (op == Op::avg ? 6 : 9));
    }
  });
}

// Data of rank i for rank j lie in an arena, in private memory, or are few; peers can read private memory or not.
TEST(everybody_fetches_what_is_for_it_wherever_it_lies) {
  for (const Wire wire : {Wire::shm, Wire::staged}) {
    for (const int size : {2, 3, 4}) {
      World world(size, [&](int, int) { return wire; });
      const std::size_t before = world.arena(0).allocated();
      world.run([&](Rank& r) {
        const auto n = static_cast<std::size_t>(size);
        for (const std::size_t count : kExchanged) {
          const Allocated shared(world.arena(r.rank), count * n * sizeof(std::int32_t));
          std::vector<std::int32_t> own(count * n);
          for (const bool arena : {true, false}) {
            auto* data = arena && r.rank != 1 ? reinterpret_cast<std::int32_t*>(shared.get()) : own.data();
            auto* memory = reinterpret_cast<std::byte*>(data);
            const auto values = [&](int from, std::size_t length) {
              return filled<std::int32_t>(
                  length, [&](std::size_t i) { return static_cast<std::int32_t>(i) * 8 + from + (arena ? 4 : 0); });
            };
            for (int root = 0; root < size; ++root) {
              std::ranges::copy(values(r.rank, count), data);
              broadcast(*r.engine, *r.group, memory, count, DType::int32, root, Mode::blocking);
              CHECK(std::equal(data, data + count, values(root, count).begin()));
            }
            // All-gather in place, as torch does it: what others read lies in what this rank writes.
            auto* mine = data + static_cast<std::size_t>(r.rank) * count;
            std::ranges::copy(values(r.rank, count), mine);
            all_gather(*r.engine, *r.group, reinterpret_cast<std::byte*>(mine), memory, count, DType::int32,
                       Mode::blocking);
            for (int rank = 0; rank < size; ++rank) {
              const std::int32_t* its = data + static_cast<std::size_t>(rank) * count;
              CHECK(std::equal(its, its + count, values(rank, count).begin()));
            }

            // Rank i has i + j + 1 parts of `count / 8` for rank j.
            const std::size_t part = count / 8;
            std::vector<std::int32_t> got(part * 2 * n * n, -1);
            std::vector<Elements> sends;
            std::vector<Elements> recvs;
            std::size_t sent = 0;
            std::size_t received = 0;
            auto given = values(r.rank, part * 2 * n * n);
            for (std::size_t peer = 0; peer < n; ++peer) {
              const std::size_t length = part * (peer + static_cast<std::size_t>(r.rank) + 1);
              sends.push_back({bytes(given) + sent * sizeof(std::int32_t), length});
              recvs.push_back({bytes(got) + received * sizeof(std::int32_t), length});
              sent += length;
              received += length;
            }
            exchange(*r.engine, *r.group, Collective::all_to_all, sends, recvs, DType::int32, -1, Mode::blocking);
            auto at = got.begin();
            for (std::size_t peer = 0; peer < n; ++peer) {
              std::size_t begin = 0;  // of what the peer has for this rank
              for (std::size_t k = 0; k < static_cast<std::size_t>(r.rank); ++k) begin += part * (k + peer + 1);
              const auto its = values(static_cast<int>(peer), begin + recvs[peer].count);
              CHECK(std::equal(its.begin() + static_cast<std::ptrdiff_t>(begin), its.end(), at));
              at += static_cast<std::ptrdiff_t>(recvs[peer].count);
            }
          }
        }
      });
      // No copy is left behind.
      for (int rank = 0; rank < size; ++rank) CHECK(world.arena(rank).allocated() == before);
    }
  }
}

// Whoever is read from waits for its readers: it may change its data at once.
TEST(data_that_others_read_stay_until_they_have) {
  World world(3, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    constexpr std::size_t kCount = 30'000;
    const Allocated shared(world.arena(r.rank), kCount * sizeof(std::int32_t));
    std::vector<std::int32_t> own(kCount);
    std::mt19937 random(static_cast<unsigned>(r.rank));
    for (int round = 0; round < sweep(300, 100, 60); ++round) {
      auto* data = round % 2 == 0 ? own.data() : reinterpret_cast<std::int32_t*>(shared.get());
      const int root = round % r.size;
      std::fill_n(data, kCount, r.rank == root ? round : -1);
      auto handle = broadcast(*r.engine, *r.group, reinterpret_cast<std::byte*>(data), kCount, DType::int32, root,
                              round % 3 == 0 ? Mode::async : Mode::blocking);
      if (random() % 2 == 0) std::this_thread::yield();
      if (handle) r.engine->wait(*handle, std::chrono::seconds(60));
      for (std::size_t i = 0; i < kCount; ++i) CHECK(data[i] == round);
      std::fill_n(data, kCount, -2);
    }
  });
}

TEST(ranks_that_disagree_about_the_size_of_a_block_hear_of_it) {
  for (const std::size_t count : {10UL, 100'000UL}) {
    World world(2, [](int, int) { return Wire::shm; });
    world.run([&](Rank& r) {
      std::vector<std::int32_t> data(2 * count + 2);
      const std::size_t sent = r.rank == 0 ? count + 1 : count;
      const std::vector<Elements> sends(2, {bytes(data), sent});
      std::vector<Elements> recvs(2, {bytes(data) + (count + 1) * sizeof(std::int32_t), count});
      recvs[static_cast<std::size_t>(r.rank)].count = sent;
      std::string said;
      try {
        exchange(*r.engine, *r.group, Collective::all_to_all, sends, recvs, DType::int32, -1, Mode::blocking);
        barrier(*r.engine, *r.group, Mode::blocking);
      } catch (const Failure& failure) {
        said = failure.what();
      }
      CHECK(said.find("rank 0 (thread) sent " + std::to_string((count + 1) * 4) + " bytes") != std::string::npos);
      CHECK(said.find("rank 1 (thread) expects " + std::to_string(count * 4)) != std::string::npos);
    });
  }
}

TEST(groups_come_and_go_and_give_their_memory_back) {
  World world(3, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    std::size_t before = 0;
    for (std::uint64_t channel = 100; channel < 130; ++channel) {
      auto group = r.engine->add_group(channel, r.rank, r.peers, std::chrono::seconds(60), plans_for(r.size, false));
      std::vector<std::int64_t> data(50, r.rank);
      all_reduce(*r.engine, *group, bytes(data), data.size(), DType::int64, Op::sum, 1, Mode::blocking);
      CHECK(data[0] == 3);
      broadcast(*r.engine, *group, bytes(data), data.size(), DType::int64, 0, Mode::blocking);
      r.engine->remove_group(*group);
      barrier(*r.engine, *r.group, Mode::blocking);  // everybody has left the group
      if (channel == 110) before = world.arena(r.rank).allocated();
    }
    CHECK(world.arena(r.rank).allocated() <= before);
  });
}

TEST(a_failed_all_reduce_in_place_gives_its_buffer_back) {
  World world(2, [](int, int) { return Wire::shm; }, false, 0.2);
  world.run([&](Rank& r) {
    if (r.rank == 1) return;
    std::byte* memory = world.arena(0).allocate(kMegabyte);
    bool failed = false;
    try {
      all_reduce(*r.engine, *r.group, memory, kMegabyte / 4, DType::float32, Op::sum, 1, Mode::blocking);
    } catch (const Failure& failure) {
      failed = failure.kind == ErrorKind::timeout;
    }
    CHECK(failed);
    const std::size_t held = world.arena(0).allocated();
    world.arena(0).release(memory);
    CHECK(world.arena(0).allocated() == held - kMegabyte);  // no other rank will ever touch it
  });
}

TEST(every_way_gives_the_same_and_the_first_rank_settles_for_one) {
  for (const auto& [size, wire] : {std::pair{2, Wire::shm}, {2, Wire::staged}, {4, Wire::shm}}) {
    World world(size, [wire](int, int) { return wire; });
    world.run([&](Rank& r) {
      r.group->method_tuner = MethodTuner(static_cast<std::size_t>(r.size));
      for (const std::size_t count : {10'001UL, 70'000UL, 500'007UL}) {
        std::vector<std::int64_t> own(count);
        for (std::size_t call = 0; call < 4 * calibration::kTries; ++call) reduce_and_check(r, bytes(own), count);
      }
      const auto sizes = r.engine->methods(*r.group);
      CHECK(sizes.size() == (r.rank == 0 ? 3 : 0));
      for (const auto& found : sizes) {
        CHECK(found.settled());
        for (const auto& tried : found.tried) CHECK(tried.ns_per_byte > 0 && tried.ns_per_byte < 1e9);
      }
    });
  }
}

// Slots and pipes go round in memory of limited size, several times here: what one turn left there is gone before the
// next one but one writes to it, and never earlier.
TEST(turns_of_all_sizes_do_not_overwrite_each_other) {
  constexpr int kSize = 3;
  Plans plans = plans_for(kSize, false);
  for (auto& [collective, sized] : plans) sized[0].limit_bytes = kOneShotBytes;
  for (const Wire wire : {Wire::shm, Wire::staged}) {
    World world(kSize, [wire](int, int) { return wire; }, plans);
    world.run([&](Rank& r) {
      std::mt19937 random(5);  // alike on all ranks
      for (int turn = 0; turn < 400; ++turn) {
        const std::size_t most = turn % 8 == 0 ? 60'000 : 8'000;
        const std::size_t count = 1 + random() % most;
        std::vector<std::int64_t> own(count);
        std::vector<std::int64_t> all(count * kSize);
        const int root = static_cast<int>(random() % kSize);
        fill(own.data(), count, r.rank);
        switch (random() % 4) {
          case 0: reduce_and_check(r, bytes(own), count); break;
          case 1:
            broadcast(*r.engine, *r.group, bytes(own), count, DType::int64, root, Mode::blocking);
            check_from(own.data(), count, root);
            break;
          case 2:
            all_gather(*r.engine, *r.group, bytes(own), bytes(all), count, DType::int64, Mode::blocking);
            for (int rank = 0; rank < kSize; ++rank) check_from(all.data() + rank * count, count, rank);
            break;
          default:
            for (int rank = 0; rank < kSize; ++rank) fill(all.data() + rank * count, count, r.rank);
            reduce_scatter(*r.engine, *r.group, bytes(all), bytes(own), count, DType::int64, Op::sum, 1,
                           Mode::blocking);
            check_sum(own.data(), count, kSize);
        }
      }
    });
  }
}

TEST(a_result_may_lie_within_what_is_given_at_its_own_place_alone) {
  constexpr int kSize = 2;
  constexpr std::size_t kCount = 3'000;
  Plans plans = plans_for(kSize, false);
  for (auto& [collective, sized] : plans) sized[0].limit_bytes = kOneShotBytes;
  World world(kSize, [](int, int) { return Wire::shm; }, plans);
  world.run([&](Rank& r) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{7}, kCount - 7, kCount}) {
      std::vector<std::int64_t> all(2 * kCount);
      for (int rank = 0; rank < kSize; ++rank) fill(all.data() + rank * kCount, kCount, r.rank);
      std::int64_t* const own = all.data() + static_cast<std::size_t>(r.rank) * kCount;
      const auto reduce_to = [&](std::int64_t* to) {
        reduce_scatter(*r.engine, *r.group, bytes(all), reinterpret_cast<std::byte*>(to), kCount, DType::int64, Op::sum,
                       1, Mode::blocking);
      };
      if (std::int64_t* const elsewhere = all.data() + place; elsewhere != own)
        CHECK(failure_of([&] { reduce_to(elsewhere); }).kind == ErrorKind::invalid);
      reduce_to(own);
      check_sum(own, kCount, kSize);
    }
  });
}

TEST(the_last_of_those_that_crowd_a_cpu_should_leave_it_for_one_with_two_fewer) {
  cpu_set_t before;
  CHECK(::sched_getaffinity(0, sizeof before, &before) == 0);
  std::size_t here = 0;
  while (!CPU_ISSET(here, &before)) ++here;
  const auto only = [](std::initializer_list<std::size_t> cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const std::size_t cpu : cpus) CPU_SET(cpu, &set);
    return set;
  };
  const cpu_set_t one = only({here});
  const cpu_set_t two = only({here, here + 1});
  CHECK(::sched_setaffinity(0, sizeof one, &one) == 0);  // what the threads of the world inherit
  for (const int size : {2, 3}) {
    World world(size, [](int, int) { return Wire::shm; });
    world.run([&](Rank& r) {
      std::vector<std::int64_t> own(1);
      reduce_and_check(r, bytes(own), own.size());
      OneShot operation;
      operation.start(*r.group, {});
      while (!operation.complete())
        if (!operation.step()) std::this_thread::yield();
      CHECK(operation.crowded(two) == (r.rank == size - 1));
      CHECK(!operation.crowded(one));
      operation.finish();
    });
  }
  CHECK(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST(where_ranks_run_is_not_known_before_they_have_met) {
  Arena arena(std::size_t{256} << 20);
  Group group;
  group.segment = std::make_unique<SharedSegment>(arena, 0, std::vector{0, 1});
  cpu_set_t cpus;
  CHECK(::sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  OneShot first;
  OneShot second;
  for (OneShot* operation : {&first, &second}) {
    operation->start(group, {});
    CHECK(!operation->crowded(cpus));
    CHECK(operation->neighbour() == -1);
  }
}
