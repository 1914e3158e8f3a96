// Epochs of ranks that share memory: how far one may be ahead of another, and what the late one finds.
#include <latch>
#include <random>

#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

// Who needs nobody goes on while there is a free slot, and whatever follows, its readers find what was meant for them.
TEST(the_root_of_small_broadcasts_runs_ahead_of_its_readers) {
  for (const std::size_t count : {2UL, 100UL}) {
    World world(3, [](int, int) { return Wire::shm; });
    std::latch ahead(1);
    world.run([&](Rank& r) {
      const auto call = [&](int epoch, std::size_t elements) {
        std::vector<std::int32_t> data(elements, r.rank == 0 ? epoch : -1);
        broadcast(*r.engine, *r.group, bytes(data), elements, DType::int32, 0, Mode::blocking);
        for (const auto value : data) CHECK(value == epoch);
      };
      constexpr int kFree = kSmallSlots - 1;
      if (r.rank != 0) ahead.wait();
      for (int epoch = 0; epoch < kFree; ++epoch) call(epoch, count);
      if (r.rank == 0) ahead.count_down();
      for (int epoch = kFree; epoch < 200; ++epoch) call(epoch, epoch % 17 == 0 ? 10'000 : count);
    });
  }
}

// Who could have gone on, were it not for the same rank, is not to blame.
TEST(who_runs_ahead_names_the_one_that_it_waits_for) {
  World world(3, [](int, int) { return Wire::shm; }, false, 2);
  world.run([](Rank& r) {
    if (r.rank == 2) return;
    const auto error = failure_of([&] {
      std::vector<std::int32_t> data(2);
      while (true) broadcast(*r.engine, *r.group, bytes(data), data.size(), DType::int32, 0, Mode::blocking);
    });
    CHECK(error.kind == ErrorKind::timeout);
    CHECK(contains(error.message, "waits for rank 2 (thread)"));
  });
}

// A fast rank may be many epochs ahead of a slow one; whoever falls behind reads what was meant for it.
TEST(epochs_of_every_kind_follow_each_other_without_waiting) {
  for (const int size : {2, 3, 4}) {
    World world(size, [](int, int) { return Wire::shm; });
    world.run([&](Rank& r) {
      std::mt19937 random(17);  // the same choices on all ranks
      std::mt19937 mine(static_cast<unsigned>(r.rank));
      const auto n = static_cast<std::size_t>(size);
      for (int round = 0; round < 600; ++round) {
        const std::size_t count = random() % 5 == 0 ? random() % 3000 : random() % 5;
        const int root = static_cast<int>(random() % n);
        const int kind = static_cast<int>(random() % 7);
        const int base = round * 10;
        std::vector<std::int32_t> data(count, base + r.rank);
        std::vector<std::int32_t> all(count * n, base + r.rank);
        const std::int32_t sum = base * size + size * (size - 1) / 2;
        switch (kind) {
          case 0:
            broadcast(*r.engine, *r.group, bytes(data), count, DType::int32, root, Mode::blocking);
            for (const auto value : data) CHECK(value == base + root);
            break;
          case 1:
            all_gather(*r.engine, *r.group, bytes(data), bytes(all), count, DType::int32, Mode::blocking);
            for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == base + static_cast<std::int32_t>(i / count));
            break;
          case 2:
            reduce(*r.engine, *r.group, bytes(data), count, DType::int32, Op::sum, 1, root, Mode::blocking);
            for (const auto value : data) CHECK(value == (r.rank == root ? sum : base + r.rank));
            break;
          case 3:
            reduce_scatter(*r.engine, *r.group, bytes(all), bytes(data), count, DType::int32, Op::sum, 1,
                           Mode::blocking);
            for (const auto value : data) CHECK(value == sum);
            break;
          case 4: barrier(*r.engine, *r.group, Mode::blocking); break;
          case 5: {
            const std::vector<Elements> sends(n, {bytes(data), count});
            std::vector<Elements> recvs;
            for (std::size_t rank = 0; rank < n; ++rank)
              recvs.push_back({bytes(all) + rank * count * sizeof(std::int32_t), count});
            exchange(*r.engine, *r.group, Collective::gather, sends, recvs, DType::int32, root, Mode::blocking);
            for (std::size_t i = 0; r.rank == root && i < all.size(); ++i)
              CHECK(all[i] == base + static_cast<std::int32_t>(i / count));
            break;
          }
          default: {
            auto handle = all_reduce(*r.engine, *r.group, bytes(data), count, DType::int32, Op::sum, 1, Mode::async);
            if (mine() % 2 == 0) std::this_thread::yield();
            r.engine->wait(*handle, std::chrono::seconds(60));
            for (const auto value : data) CHECK(value == sum);
          }
        }
      }
    });
  }
}
