// Messages between two ranks arrive whole and in order, whatever their sizes and however ranks ask for them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>

#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::chrono::duration<double> kNoLimit{-1};
constexpr std::size_t kSizes[] = {0, 1, 8, 9, 700, kLargestRecord, kLargestRecord + 1, 20'000, 300'000};
constexpr std::int32_t kTags = 3;

// Both ends of a message draw its length and its content from the same numbers.
struct Sent {
  std::int32_t tag;
  std::vector<std::byte> content;
};

std::vector<Sent> traffic(unsigned seed, int from, int to, int messages) {
  std::mt19937 random(seed * 10'007 + static_cast<unsigned>(from * 101 + to));
  std::vector<Sent> sent;
  for (int i = 0; i < messages; ++i) {
    const auto tag = static_cast<std::int32_t>(random() % kTags);
    std::vector<std::byte> content(kSizes[random() % std::size(kSizes)]);
    for (std::byte& byte : content) byte = static_cast<std::byte>(random());
    sent.push_back({tag, std::move(content)});
  }
  return sent;
}

void wait_for(Rank& r, const Handle& operation) {
  if (operation) r.engine->wait(*operation, kNoLimit);
}

// Memory of the arena for every other message, which peers read where it lies.
struct Place {
  Place(const std::shared_ptr<Arena>& arena, std::size_t bytes, bool shared) : own(shared ? 0 : bytes) {
    if (shared) visible = std::make_unique<ArenaMemory>(arena, std::max<std::size_t>(bytes, 1));
  }
  std::byte* data() { return visible ? visible->data() : own.data(); }

  std::vector<std::byte> own;
  std::unique_ptr<ArenaMemory> visible;
};

// Every rank sends to and receives from all others, in an order of its own; it waits in yet another one.
void check_traffic(World& world, unsigned seed, int messages) {
  world.run([&](Rank& r) {
    std::mt19937 random(seed + static_cast<unsigned>(r.rank));
    struct Step {
      bool sends;
      int peer;
      std::size_t next = 0;
      std::vector<Sent> all{};
    };
    std::vector<Step> steps;
    for (int peer = 0; peer < r.size; ++peer) {
      if (peer == r.rank) continue;
      steps.push_back({true, peer, 0, traffic(seed, r.rank, peer, messages)});
      steps.push_back({false, peer, 0, traffic(seed, peer, r.rank, messages)});
    }
    struct Arrived {
      Handle operation;
      std::unique_ptr<Place> place;
      const Sent* expected;
    };
    std::vector<Arrived> received;
    std::vector<Handle> sent;
    std::vector<std::unique_ptr<Place>> kept;
    for (std::size_t left = steps.size() * static_cast<std::size_t>(messages); left > 0;) {
      Step& step = steps[random() % steps.size()];
      if (step.next == step.all.size()) continue;
      const Sent& message = step.all[step.next++];
      --left;
      const std::size_t bytes = message.content.size();
      auto place = std::make_unique<Place>(world.shared_arena(r.rank), bytes, random() % 2 == 0);
      if (step.sends) {
        std::ranges::copy(message.content, place->data());
        sent.push_back(
            send(*r.engine, *r.group, place->data(), bytes, DType::uint8, step.peer, message.tag, Mode::async));
        kept.push_back(std::move(place));
      } else {
        auto operation =
            receive(*r.engine, *r.group, place->data(), bytes, DType::uint8, step.peer, message.tag, Mode::async);
        received.push_back({std::move(operation), std::move(place), &message});
      }
      if (random() % 8 == 0 && !received.empty()) r.engine->is_over(*received[random() % received.size()].operation);
    }
    std::ranges::shuffle(received, random);
    for (const Arrived& one : received) {
      r.engine->wait(*one.operation, kNoLimit);
      CHECK(std::equal(one.expected->content.begin(), one.expected->content.end(), one.place->data()));
    }
    for (const Handle& operation : sent) wait_for(r, operation);
  });
}

}  // namespace

TEST(any_order_of_any_sizes_on_one_machine) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    World world(3, [&](int, int) { return seed % 3 == 2 ? Wire::staged : Wire::shm; });
    check_traffic(world, seed, 30);
  }
}

TEST(any_order_of_any_sizes_between_machines) {
  World world(4, [](int i, int j) { return i / 2 == j / 2 ? Wire::shm : Wire::tcp; });
  check_traffic(world, 7, 20);
}

TEST(blocking_calls_in_both_directions) {
  World world(2, [](int, int) { return Wire::shm; });
  world.run([](Rank& r) {
    const int peer = 1 - r.rank;
    const auto there = traffic(1, 0, 1, 200);
    const auto back = traffic(1, 1, 0, 200);
    for (std::size_t i = 0; i < there.size(); ++i) {
      std::vector<std::byte> sent = r.rank == 0 ? there[i].content : back[i].content;
      const std::vector<std::byte>& expected = r.rank == 0 ? back[i].content : there[i].content;
      std::vector<std::byte> got(expected.size());
      int sender = -1;
      const auto give = [&] {
        CHECK(!send(*r.engine, *r.group, sent.data(), sent.size(), DType::uint8, peer, 0, Mode::blocking));
      };
      const auto take = [&] {
        CHECK(!receive(*r.engine, *r.group, got.data(), got.size(), DType::uint8, i % 2 == 0 ? peer : -1, 0,
                       Mode::blocking, &sender));
      };
      r.rank == 0 ? give() : take();
      r.rank == 0 ? take() : give();
      CHECK(got == expected && sender == peer);
    }
  });
}

TEST(a_small_message_is_over_at_once_and_waits_in_the_ring) {
  World world(2, [](int, int) { return Wire::shm; });
  std::atomic<bool> sent = false;
  world.run([&](Rank& r) {
    std::uint64_t word = 42;
    auto* const data = reinterpret_cast<std::byte*>(&word);
    if (r.rank == 0) {
      CHECK(!send(*r.engine, *r.group, data, 1, DType::int64, 1, 5, Mode::async));
      sent = true;
    } else {
      while (!sent) std::this_thread::yield();
      word = 0;
      const Handle here = receive(*r.engine, *r.group, data, 1, DType::int64, -1, 5, Mode::async);
      CHECK(r.engine->is_over(*here) && here->source() == 0 && word == 42);
      CHECK(!r.engine->notify(*here));
    }
  });
}

TEST(to_ask_whether_a_receive_is_over_moves_it_on) {
  World world(2, [](int, int) { return Wire::shm; });
  std::atomic<bool> asked = false;
  world.run([&](Rank& r) {
    float value = static_cast<float>(r.rank);
    auto* const data = reinterpret_cast<std::byte*>(&value);
    if (r.rank == 0) {
      const Handle under_way = receive(*r.engine, *r.group, data, 1, DType::float32, 1, 0, Mode::async);
      CHECK(!r.engine->is_over(*under_way));
      asked = true;
      while (!r.engine->is_over(*under_way)) std::this_thread::yield();
      CHECK(value == 1);
    } else {
      while (!asked) std::this_thread::yield();
      send(*r.engine, *r.group, data, 1, DType::float32, 0, 0, Mode::blocking);
    }
  });
}

// The receiver sleeps, and small messages do not wake it. The one that finds the ring full must.
TEST(a_full_ring_wakes_a_receiver_that_waits_for_another_message) {
  World world(2, [](int, int) { return Wire::shm; });
  constexpr int kMessages = 100;
  std::atomic<bool> posted = false;
  std::atomic<bool> sent = false;
  world.run([&](Rank& r) {
    std::vector<std::byte> data(kLargestRecord, static_cast<std::byte>(7));
    const auto say = [&](std::int32_t tag) {
      send(*r.engine, *r.group, data.data(), data.size(), DType::uint8, 1, tag, Mode::blocking);
    };
    if (r.rank == 0) {
      while (!posted) std::this_thread::yield();
      for (int i = 0; i < kMessages; ++i) say(0);
      sent = true;
      say(1);
      return;
    }
    std::vector<std::byte> late(kLargestRecord);
    const Handle waits = receive(*r.engine, *r.group, late.data(), late.size(), DType::uint8, 0, 1, Mode::async);
    posted = true;
    while (!sent) std::this_thread::yield();  // the program computes, and does not call the engine
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::byte> got(kLargestRecord);
      receive(*r.engine, *r.group, got.data(), got.size(), DType::uint8, 0, 0, Mode::blocking);
      CHECK(got == data);
    }
    r.engine->wait(*waits, kNoLimit);
    CHECK(late == data);
  });
}

TEST(a_rank_that_leaves_or_aborts_ends_every_wait_for_its_messages) {
  for (const bool leaves : {false, true}) {
    for (const bool blocks : {false, true}) {
      World world(2, [](int, int) { return Wire::shm; });
      world.run([&](Rank& r) {
        if (r.rank == 1) {
          leaves ? r.engine->close() : r.engine->abort(*r.group, "as the test asks");
          return;
        }
        double value = 0;
        auto* const data = reinterpret_cast<std::byte*>(&value);
        const Error error = failure_of([&] {
          const Handle operation =
              receive(*r.engine, *r.group, data, 1, DType::float64, 1, 0, blocks ? Mode::blocking : Mode::async);
          wait_for(r, operation);
        });
        CHECK(error.kind == (leaves ? ErrorKind::peer_lost : ErrorKind::aborted));
        CHECK(contains(error.message, "rank 1"));
      });
    }
  }
}

TEST(a_message_of_another_length_is_named_on_both_sides) {
  World world(2, [](int, int) { return Wire::shm; });
  world.run([](Rank& r) {
    std::vector<std::byte> data(16);
    const Error error = failure_of([&] {
      if (r.rank == 0) send(*r.engine, *r.group, data.data(), 16, DType::uint8, 1, 0, Mode::blocking);
      receive(*r.engine, *r.group, data.data(), 8, DType::uint8, 1 - r.rank, 0, Mode::blocking);
    });
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "rank 0 (thread) sent 16 bytes in send") && contains(error.message, "expects 8"));
  });
}

TEST(more_ranks_than_cpus_finish) {
  const auto ranks = static_cast<int>(2 * std::max(1U, std::thread::hardware_concurrency()));
  World world(std::min(ranks, 8), [](int, int) { return Wire::shm; });
  check_traffic(world, 11, 12);
}
