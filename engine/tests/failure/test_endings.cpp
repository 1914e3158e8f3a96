// Memory of a call that has ended is nobody's but its owner's, and who comes late hears of the end.
#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;  // bytes

// Memory of an arena for as long as this lives.
class Allocated {
 public:
  Allocated(Arena& arena, std::size_t bytes) : arena_(arena), memory_(arena.allocate(bytes)), bytes_(bytes) {}
  ~Allocated() { arena_.release(memory_); }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  std::byte* get() const { return memory_; }
  void fill(int value) { std::fill_n(memory_, bytes_, static_cast<std::byte>(value)); }
  bool holds(int value) const {
    return std::all_of(memory_, memory_ + bytes_,
                       [=](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

 private:
  Arena& arena_;
  std::byte* memory_;
  std::size_t bytes_;
};

using Call = std::function<Handle(Rank&, std::byte* data, std::size_t bytes, Mode mode)>;

// What rank 0 can begin without rank 1, and rank 1 takes part in later. `data` holds twice as many bytes.
const std::array<Call, 5> kCalls = {
    [](Rank& r, std::byte* data, std::size_t bytes, Mode mode) {
      return all_reduce(*r.engine, *r.group, data, bytes, DType::uint8, Op::sum, 1, mode);
    },
    [](Rank& r, std::byte* data, std::size_t bytes, Mode mode) {
      return reduce(*r.engine, *r.group, data, bytes, DType::uint8, Op::sum, 1, 0, mode);
    },
    [](Rank& r, std::byte* data, std::size_t bytes, Mode mode) {
      return all_gather(*r.engine, *r.group, data + bytes, data, bytes / 2, DType::uint8, mode);
    },
    [](Rank& r, std::byte* data, std::size_t bytes, Mode mode) {
      return reduce_scatter(*r.engine, *r.group, data, data + bytes, bytes / 2, DType::uint8, Op::sum, 1, mode);
    },
    [](Rank& r, std::byte* data, std::size_t bytes, Mode mode) {
      return r.rank == 0 ? send(*r.engine, *r.group, data, bytes, DType::uint8, 1, 0, mode)
                         : receive(*r.engine, *r.group, data, bytes, DType::uint8, 0, 0, mode);
    },
};

void over_every_wire(const std::function<void(Wire)>& body) {
  for (const Wire wire : {Wire::shm, Wire::staged, Wire::tcp}) body(wire);
}

}  // namespace

TEST(a_late_rank_hears_that_a_call_has_failed_and_touches_no_memory_of_it) {
  over_every_wire([](Wire wire) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{20'000}, kLarge}) {
      for (std::size_t call = 0; call < kCalls.size(); ++call) {
        if (call == 4 && bytes < kLarge) continue;  // a small message is on its way at once
        World world(2, [=](int, int) { return wire; });
        std::barrier turn(2);
        world.run([&](Rank& r) {
          Allocated data(world.arena(r.rank), 2 * bytes);
          data.fill(1);
          if (r.rank == 0) {
            const auto early = kCalls[call](r, data.get(), bytes, Mode::async);
            const auto error = failure_of([&] { r.engine->wait(*early, std::chrono::milliseconds(100)); });
            CHECK(error.kind == ErrorKind::timeout);
            data.fill(100);
            turn.arrive_and_wait();
            turn.arrive_and_wait();
            CHECK(data.holds(100));
          } else {
            turn.arrive_and_wait();
            const auto error = failure_of([&] { kCalls[call](r, data.get(), bytes, Mode::blocking); });
            CHECK(error.kind == ErrorKind::timeout);
            CHECK(contains(error.message, " on rank 0 (thread)"));
            turn.arrive_and_wait();
          }
        });
      }
    }
  });
}

TEST(a_rank_that_gives_up_amid_an_all_reduce_has_its_buffer_for_itself) {
  // A late rank may read what the owner writes meanwhile, and then finds that it does not count: to ThreadSanitizer
  // that is a race.
  const int rounds = sweep(20, 20, 0);
  for (int round = 0; round < rounds; ++round) {
    World world(3, [](int, int) { return Wire::shm; }, plans_for(3, false));
    std::barrier turn(3);
    world.run([&](Rank& r) {
      Allocated data(world.arena(r.rank), 8 * kLarge);
      data.fill(1);
      turn.arrive_and_wait();
      const auto sum = all_reduce(*r.engine, *r.group, data.get(), 8 * kLarge, DType::uint8, Op::sum, 1, Mode::async);
      if (r.rank == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
        r.engine->abort(*r.group, "enough");
        data.fill(100);
      } else {
        failure_of([&] { r.engine->wait(*sum, std::chrono::seconds(-1)); });
      }
      turn.arrive_and_wait();
      if (r.rank == 0) CHECK(data.holds(100));
    });
  }
}

TEST(closing_with_something_under_way_fails_it_on_all_ranks) {
  over_every_wire([](Wire wire) {
    for (const bool engine_closes : {false, true}) {
      for (std::size_t call = 0; call < kCalls.size(); ++call) {
        World world(2, [=](int, int) { return wire; });
        std::barrier turn(2);
        world.run([&](Rank& r) {
          Allocated data(world.arena(r.rank), 2 * kLarge);
          data.fill(7);
          if (r.rank == 0) {
            const auto handle = kCalls[call](r, data.get(), kLarge, Mode::async);
            failure_of([&] { engine_closes ? r.engine->close() : r.engine->remove_group(*r.group); });
            CHECK(handle->error().kind == ErrorKind::aborted);
            data.fill(9);
            turn.arrive_and_wait();
            turn.arrive_and_wait();
            CHECK(data.holds(9));
          } else {
            turn.arrive_and_wait();
            const auto error = failure_of([&] { kCalls[call](r, data.get(), kLarge, Mode::blocking); });
            CHECK(error.kind == ErrorKind::aborted);
            CHECK(contains(error.message, "rank 0 (thread) has closed the group while "));
            turn.arrive_and_wait();
          }
        });
      }
    }
  });
}

TEST(who_leaves_in_good_order_leaves_what_it_has_done) {
  World world(2, [](int, int) { return Wire::shm; });
  std::barrier turn(2);
  world.run([&](Rank& r) {
    std::vector<float> data(100, r.rank == 0 ? 7 : 0);
    const auto call = [&] {
      broadcast(*r.engine, *r.group, bytes(data), data.size(), DType::float32, 0, Mode::blocking);
    };
    if (r.rank == 0) {
      call();
      r.engine->remove_group(*r.group);
      turn.arrive_and_wait();
    } else {
      turn.arrive_and_wait();
      call();
      CHECK(data[99] == 7);
      const auto error = failure_of(call);
      CHECK(error.kind == ErrorKind::peer_lost);
      CHECK(contains(error.message, "rank 0 (thread) has left the group"));
    }
    turn.arrive_and_wait();
  });
}

TEST(a_message_to_a_rank_that_has_left_the_group_fails) {
  over_every_wire([](Wire wire) {
    World world(2, [=](int, int) { return wire; });
    std::barrier turn(2);
    world.run([&](Rank& r) {
      const auto other = r.engine->add_group(43, r.rank, r.peers, std::chrono::seconds(60), plans_for(2, false));
      std::vector<std::byte> data(kLarge);
      if (r.rank == 0) {
        r.engine->remove_group(*r.group);
        turn.arrive_and_wait();
      } else {
        turn.arrive_and_wait();
        const auto error = failure_of(
            [&] { send(*r.engine, *r.group, data.data(), data.size(), DType::uint8, 0, 0, Mode::blocking); });
        CHECK(error.kind == ErrorKind::peer_lost);
        CHECK(contains(error.message, "rank 0 (thread) has left the group"));
      }
      barrier(*r.engine, *other, Mode::blocking);  // a rank that is idle does not read
    });
  });
}

TEST(a_peer_that_does_not_read_hears_an_abort_and_a_goodbye_behind_many_messages) {
  for (const bool aborts : {true, false}) {
    World world(2, [](int, int) { return Wire::shm; });
    std::barrier turn(2);
    world.run([&](Rank& r) {
      std::vector<std::byte> data(kLargestRecord);
      const std::array sizes{4096UL, 4096UL, aborts ? 4096UL : 1000UL};
      if (r.rank == 0) {
        for (const std::size_t size : sizes)
          send(*r.engine, *r.group, data.data(), size, DType::uint8, 1, 0, Mode::async);
        if (aborts) {
          send(*r.engine, *r.group, data.data(), 3784, DType::uint8, 1, 0, Mode::async);
          r.engine->abort(*r.group, std::string(2000, 'x'));
        } else {
          r.engine->close();
        }
        turn.arrive_and_wait();
        return;
      }
      turn.arrive_and_wait();
      if (aborts) {
        CHECK(failure_of([&] { barrier(*r.engine, *r.group, Mode::blocking); }).kind == ErrorKind::aborted);
        return;
      }
      for (const std::size_t size : sizes)
        receive(*r.engine, *r.group, data.data(), size, DType::uint8, 0, 0, Mode::blocking);
      const auto error = failure_of([&] { barrier(*r.engine, *r.group, Mode::blocking); });
      CHECK(contains(error.message, "has left the job"));
    });
  }
}

// The news of a new group waits behind messages; rank 0 calls nothing any more.
TEST(what_waits_for_room_is_sent_by_whoever_is_there) {
  World world(2, [](int, int) { return Wire::shm; });
  std::barrier turn(2);
  world.run([&](Rank& r) {
    std::vector<std::byte> data(3400);
    if (r.rank == 0) {
      for (int i = 0; i < 4; ++i) send(*r.engine, *r.group, data.data(), data.size(), DType::uint8, 1, 0, Mode::async);
      const auto other = r.engine->add_group(43, 0, r.peers, std::chrono::seconds(60), plans_for(2, false));
      turn.arrive_and_wait();
      turn.arrive_and_wait();
      return;
    }
    turn.arrive_and_wait();
    const auto other = r.engine->add_group(43, 1, r.peers, std::chrono::seconds(60), plans_for(2, false));
    for (int i = 0; i < 4; ++i)
      receive(*r.engine, *r.group, data.data(), data.size(), DType::uint8, 0, 0, Mode::blocking);
    const auto knows = [&] {
      r.engine->is_over(*receive(*r.engine, *r.group, data.data(), 1, DType::uint8, 0, 1, Mode::async));
      const auto lock = r.engine->host().enter();
      return other->segment->ready();
    };
    while (!knows()) std::this_thread::yield();
    turn.arrive_and_wait();
    r.engine->abort(*r.group, "enough");
  });
}

TEST(a_receive_from_any_rank_fails_once_all_others_have_left) {
  over_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; });
    std::barrier turn(3);
    world.run([&](Rank& r) {
      std::vector<float> data(4, 3);
      if (r.rank == 2) {
        r.engine->close();
        turn.arrive_and_wait();
        return;
      }
      turn.arrive_and_wait();
      if (r.rank == 1) {
        send(*r.engine, *r.group, bytes(data), data.size(), DType::float32, 0, 0, Mode::blocking);
        r.engine->close();
        return;
      }
      const auto call = [&] {
        receive(*r.engine, *r.group, bytes(data), data.size(), DType::float32, -1, 0, Mode::blocking);
      };
      call();  // one is still there
      const auto error = failure_of(call);
      CHECK(error.kind == ErrorKind::peer_lost);
      CHECK(contains(error.message, "has left the job"));
    });
  });
}

TEST(what_was_sent_arrives_although_the_sender_has_left_with_messages_unread) {
  constexpr int kMessages = 60;  // more than sockets hold
  World world(2, [](int, int) { return Wire::tcp; });
  std::barrier turn(2);
  world.run([&](Rank& r) {
    std::vector<int> data(15'000);
    if (r.rank == 1) {
      send(*r.engine, *r.group, bytes(data), 4, DType::int32, 0, 7, Mode::blocking);  // never received
      turn.arrive_and_wait();
      turn.arrive_and_wait();
      for (int i = 0; i < kMessages; ++i) {
        receive(*r.engine, *r.group, bytes(data), data.size(), DType::int32, 0, 0, Mode::blocking);
        CHECK(data.front() == i && data.back() == i);
      }
      return;
    }
    turn.arrive_and_wait();
    std::vector<std::vector<int>> sent;
    std::vector<Handle> handles;
    for (int i = 0; i < kMessages; ++i) {
      sent.emplace_back(data.size(), i);
      if (auto handle = send(*r.engine, *r.group, bytes(sent.back()), data.size(), DType::int32, 1, 0, Mode::async))
        handles.push_back(handle);
    }
    turn.arrive_and_wait();
    for (const Handle& handle : handles) r.engine->wait(*handle, std::chrono::seconds(-1));
    r.engine->close();
  });
}

TEST(messages_of_other_elements_than_expected_are_a_mismatch_on_both_ranks) {
  over_every_wire([](Wire wire) {
    for (const std::size_t count : {4UL, 100'000UL}) {
      for (const bool sent_first : {true, false}) {
        World world(2, [=](int, int) { return wire; });
        std::barrier turn(2);
        world.run([&](Rank& r) {
          std::vector<float> data(count, 1);
          const bool first = (r.rank == 0) == sent_first;
          if (!first) turn.arrive_and_wait();
          const auto handle = r.rank == 0
                                  ? send(*r.engine, *r.group, bytes(data), count, DType::float32, 1, 3, Mode::async)
                                  : receive(*r.engine, *r.group, bytes(data), count, DType::int32, 0, 3, Mode::async);
          if (first) turn.arrive_and_wait();
          const auto error = failure_of([&] {
            if (handle != nullptr) r.engine->wait(*handle, std::chrono::seconds(-1));
            barrier(*r.engine, *r.group, Mode::blocking);
          });
          CHECK(error.kind == ErrorKind::mismatch);
          CHECK(contains(error.message, "sent float32[" + std::to_string(count) + "] with tag 3"));
          CHECK(contains(error.message, "expects int32"));
          turn.arrive_and_wait();
        });
      }
    }
  });
}
