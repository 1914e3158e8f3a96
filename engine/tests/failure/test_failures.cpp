// What goes wrong reaches every rank, says who, and leaves nobody waiting.
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <limits>
#include <thread>

#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

void reduce_floats(Rank& r, std::size_t count) {
  std::vector<float> data(count, 1);
  all_reduce(*r.engine, *r.group, bytes(data), count, DType::float32, Op::sum, 1, Mode::blocking);
}

void on_every_wire(const std::function<void(Wire)>& body) {
  for (const Wire wire : {Wire::shm, Wire::staged, Wire::tcp}) body(wire);
}

}  // namespace

TEST(different_sizes_are_named_on_every_rank) {
  on_every_wire([](Wire wire) {
    for (const std::size_t other : {2UL, 1000UL, 100'000UL}) {
      World world(3, [=](int, int) { return wire; });
      world.run([&](Rank& r) {
        const auto error = failure_of([&] { reduce_floats(r, r.rank == 1 ? other : 4); });
        CHECK(error.kind == ErrorKind::mismatch);
        CHECK(contains(error.message, "float32[4] SUM"));
        CHECK(contains(error.message, "rank 1") || r.rank == 1);
        CHECK(contains(error.message, "float32[" + std::to_string(other) + "]"));
      });
    }
  });
}

TEST(different_collectives_are_named_on_every_rank) {
  World world(3, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    const auto error = failure_of([&] {
      if (r.rank == 2) {
        barrier(*r.engine, *r.group, Mode::blocking);
      } else {
        reduce_floats(r, 100);
      }
    });
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "barrier #0"));
    CHECK(contains(error.message, "all_reduce #0"));
  });
}

TEST(roots_that_never_talk_to_each_other_are_found_too) {
  // Everybody but the root only sends: no message tells two of them apart, the probe does.
  World world(3, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    std::vector<float> data(5000);
    const auto error = failure_of([&] {
      reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, r.rank == 0 ? 1 : 0,
             Mode::blocking);
    });
    CHECK(error.kind == ErrorKind::mismatch);
  });
}

TEST(roots_that_need_nobody_are_found_by_the_last_rank_whatever_comes_next) {
  // Whether all ranks take themselves for the root of a broadcast, or nobody for that of a reduction: each could go on.
  for (const int ranks : {2, 3}) {
    for (const bool broadcasts : {true, false}) {
      World world(ranks, [](int, int) { return Wire::shm; });
      std::atomic<int> found = 0;
      std::barrier done(ranks);
      world.run([&](Rank& r) {
        std::vector<float> data(10, 1);
        const auto call = [&] {
          if (broadcasts) {
            broadcast(*r.engine, *r.group, bytes(data), data.size(), DType::float32, r.rank, Mode::blocking);
          } else {
            const int root = (r.rank + 1) % r.size;
            reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, root, Mode::blocking);
          }
        };
        if (failure_of(call).kind == ErrorKind::mismatch) ++found;
        done.arrive_and_wait();
        CHECK(found > 0);
        CHECK(failure_of([&] { reduce_floats(r, 10); }).kind == ErrorKind::mismatch);
      });
    }
  }
}

// Two sockets that are joined only once all that goes between them is passed on.
class HeldWire {
 public:
  HeldWire() {
    const auto [a, near_a] = tcp_pair();
    const auto [b, near_b] = tcp_pair();
    ends = {a, b};
    near_ = {near_a, near_b};
  }
  ~HeldWire() {
    for (auto& pump : pumps_) pump.join();
    for (const int socket : near_) ::close(socket);
  }
  void pass_on() {
    for (const std::size_t from : {0, 1}) {
      pumps_.emplace_back([from = near_[from], to = near_[1 - from]] {
        std::array<char, 4096> bytes;
        for (ssize_t got; (got = ::recv(from, bytes.data(), bytes.size(), 0)) > 0;)
          if (::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) break;
        ::shutdown(to, SHUT_WR);
      });
    }
  }

  std::array<int, 2> ends;

 private:
  std::array<int, 2> near_;
  std::vector<std::thread> pumps_;
};

TEST(roots_that_differ_in_the_last_collective_between_machines_are_named_where_ranks_leave) {
  for (const bool groups_close : {true, false}) {
    HeldWire wire;
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<std::shared_ptr<Group>> groups;
    std::vector<std::thread> servers;
    for (const int rank : {0, 1}) {
      const auto name = [](int of) { return "rank " + std::to_string(of) + " (thread)"; };
      auto& engine = engines.emplace_back(std::make_unique<Engine>(std::make_shared<Arena>(std::size_t{4} << 20),
                                                                   std::chrono::microseconds(5), name(rank)));
      const int peer = engine->add_tcp_peer(Descriptor(wire.ends[static_cast<std::size_t>(rank)]), name(1 - rank));
      const std::vector<int> peers = rank == 0 ? std::vector{-1, peer} : std::vector{peer, -1};
      groups.push_back(engine->add_group(42, rank, peers, std::chrono::seconds(60), plans_for(2, false)));
      servers.emplace_back([&engine = *engine] { engine.serve(); });
      std::vector<float> data(10, 1);
      broadcast(*engine, *groups.back(), bytes(data), data.size(), DType::float32, rank, Mode::blocking);
    }
    wire.pass_on();
    std::vector<std::thread> leaving;
    for (const std::size_t rank : {0, 1}) {
      leaving.emplace_back([&, rank] {
        const auto error = failure_of([&] {
          if (groups_close) engines[rank]->remove_group(*groups[rank]);
          engines[rank]->close();
        });
        CHECK(error.kind == ErrorKind::mismatch);
        CHECK(contains(error.message, "rank 0 (thread) calls broadcast #0 float32[10] root 0, rank 1 (thread) calls"));
      });
    }
    for (auto& thread : leaving) thread.join();
    for (auto& engine : engines) engine->close();
    for (auto& server : servers) server.join();
  }
}

TEST(a_rank_that_goes_on_without_an_answer_leaves_and_who_comes_later_finds_the_other_root) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::barrier left(2);
  world.run([&](Rank& r) {
    std::vector<float> data(10, 1);
    const auto call = [&] {
      broadcast(*r.engine, *r.group, bytes(data), data.size(), DType::float32, r.rank, Mode::blocking);
    };
    if (r.rank == 0) {
      call();
      r.engine->close();
      left.arrive_and_wait();
    } else {
      left.arrive_and_wait();
      CHECK(failure_of(call).kind == ErrorKind::mismatch);
    }
  });
}

TEST(a_rank_that_leaves_is_named) {
  on_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; });
    world.run([&](Rank& r) {
      if (r.rank == 2) {
        reduce_floats(r, 10);
        r.engine->close();
        return;
      }
      // The rank that finds out tells the other one, which may still be in the operation before.
      const auto error = failure_of([&] {
        reduce_floats(r, 10);
        reduce_floats(r, 5000);
      });
      CHECK(error.kind == ErrorKind::peer_lost);
      CHECK(contains(error.message, "rank 2 (thread) has left the job"));
      const auto again = failure_of([&] { reduce_floats(r, 5000); });
      CHECK(again.kind == ErrorKind::peer_lost);
    });
  });
}

// Another thread may be about to set what it has just measured.
TEST(a_group_outlives_its_links) {
  on_every_wire([](Wire wire) {
    World world(2, [=](int, int) { return wire; });
    world.run([&](Rank& r) {
      const auto ask = [&](Group& group) {
        r.engine->set_pace(group, 1e9, {1e9, 1e9});
        CHECK(r.engine->received(group, 1 - r.rank) == 0);
      };
      const auto other = r.engine->add_group(43, r.rank, r.peers, std::chrono::seconds(60), plans_for(2, false));
      r.engine->set_pace(*other, 2e9, {2e9, 2e9});
      failure_of([&] { r.engine->remove_group(*other); });
      ask(*other);
      reduce_floats(r, 10);
      failure_of([&] { r.engine->close(); });
      ask(*other);
      ask(*r.group);
    });
  });
}

TEST(a_garbled_link_is_the_reason_for_every_group_and_its_peer_is_told) {
  const auto [ours, theirs] = tcp_pair();
  const Descriptor stranger(theirs);
  Engine engine(std::make_shared<Arena>(std::size_t{4} << 20), std::chrono::microseconds(5), "rank 0 (thread)");
  const int peer = engine.add_tcp_peer(Descriptor(ours), "rank 1 (thread)");
  const std::string garbage(100, 'x');
  CHECK(::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) == 100);
  std::string told(1 << 16, ' ');
  std::size_t heard = 0;
  for (const std::uint64_t channel : {1, 2}) {  // the second group is made when the link has been given up
    const auto group = engine.add_group(channel, 0, {-1, peer}, std::chrono::seconds(60), plans_for(2, false));
    std::vector<float> data(100, 1);
    const auto error = failure_of(
        [&] { all_reduce(engine, *group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking); });
    CHECK(error.kind == ErrorKind::peer_lost);
    const std::string wanted = "rank 1 (thread) sent rank 0 (thread) a garbled frame (127.0.0.1:";
    CHECK(contains(error.message, wanted));
    while (!contains(told, wanted)) {
      const auto got = ::recv(stranger.get(), &told[heard], told.size() - heard, 0);
      CHECK(got > 0);
      heard += static_cast<std::size_t>(got);
    }
    heard = 0;
    told.assign(told.size(), ' ');
  }
}

TEST(who_leaves_because_of_an_error_is_not_the_one_to_blame) {
  on_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; });
    world.run([&](Rank& r) {
      const auto pair = [&](std::uint64_t channel, int rank, std::vector<int> members) {
        std::vector<int> peers;
        for (const int member : members) peers.push_back(r.peers[static_cast<std::size_t>(member)]);
        return r.engine->add_group(channel, rank, peers, std::chrono::seconds(60), plans_for(2, false));
      };
      const auto first = r.rank < 2 ? pair(1, r.rank, {0, 1}) : nullptr;
      const auto second = r.rank > 0 ? pair(2, r.rank - 1, {1, 2}) : nullptr;
      const auto fails = [&](Group& group) {
        try {
          std::vector<float> data(100, 1);
          all_reduce(*r.engine, group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
        } catch (const Failure& failure) {
          CHECK(failure.operation == "all_reduce #0 float32[100] SUM");
          return failure;
        }
        return Failure(Error{});
      };
      if (r.rank == 2) r.engine->abort(*second, "enough");
      if (r.rank == 1) {
        const auto told = fails(*second);
        CHECK(told.kind == ErrorKind::aborted && told.culprit == "rank 2 (thread)");
        r.engine->close();
      }
      if (r.rank != 0) return;
      const auto told = fails(*first);
      CHECK(told.kind == ErrorKind::peer_lost && told.culprit == "rank 2 (thread)");
      const std::string text = told.what();
      CHECK(contains(text, "rank 2 (thread) aborted: enough; after that rank 1 (thread) has left the job"));
    });
  });
}

TEST(errors_survive_frames_and_garbled_ones_are_none) {
  const Error error{ErrorKind::timeout, "too late", "rank 3 (b)"};
  const auto back = [](const std::string& payload) { return decoded(std::as_bytes(std::span(payload))); };
  const Error same = back(encoded(error));
  CHECK(same.kind == error.kind && same.message == error.message && same.culprit == error.culprit);
  const Error large = back(encoded({ErrorKind::aborted, std::string(5000, 'm'), std::string(5000, 'c')}));
  CHECK(large.message.size() == 1000 && large.culprit.size() == 400);
  // No character is cut in two: each of these has two bytes.
  std::string accents = "x";
  for (int i = 0; i < 2000; ++i) accents += "\xc3\xa9";
  const Error cut = back(encoded({ErrorKind::aborted, accents, accents}));
  CHECK(cut.message == accents.substr(0, 999) && cut.culprit == accents.substr(0, 399));
  for (const std::string& garbled :
       {std::string(), std::string("\x01"), std::string("\x01\xff\x00text", 7), std::string("\x70\x00\x00text", 7)})
    CHECK(!back(garbled));
}

TEST(a_timeout_names_who_is_missing) {
  on_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; }, false, 5);  // in which all answer for whom they wait
    world.run([&](Rank& r) {
      if (r.rank == 2) return;
      const auto error = failure_of([&] { reduce_floats(r, 5000); });
      CHECK(error.kind == ErrorKind::timeout);
      CHECK(contains(error.message, "waits for rank 2 (thread)"));
      // From where to where, and since when nothing has come from there.
      CHECK(contains(error.message, " to 127.0.0.1:") == (wire == Wire::tcp));
      CHECK(contains(error.message, ", nothing heard for ") == (wire == Wire::tcp));
    });
  });
}

TEST(a_timeout_says_what_was_noted_of_the_operation) {
  World world(2, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    if (r.rank == 1) return;
    std::vector<float> data(10);
    const auto late =
        all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
    CHECK(r.engine->waits()[0].left.count() > 0);
    r.engine->annotate(late->id, "before: late.py:7");
    r.engine->annotate(late->id + 1, "nobody");
    const auto error = failure_of([&] { r.engine->wait(*late, std::chrono::milliseconds(50)); });
    CHECK(error.kind == ErrorKind::timeout);
    CHECK(error.message.ends_with("waits for rank 1 (thread); before: late.py:7"));
  });
}

TEST(what_it_waits_for_is_the_oldest_of_each_kind) {
  on_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; });
    std::barrier done(3);
    world.run([&](Rank& r) {
      reduce_floats(r, 10);
      if (r.rank == 2) {
        done.arrive_and_wait();
        return;
      }
      CHECK(r.engine->waits().empty());
      std::vector<float> data(5000, 1);
      std::vector<float> other(10);
      const auto oldest =
          all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
      barrier(*r.engine, *r.group, Mode::async);
      receive(*r.engine, *r.group, bytes(other), other.size(), DType::float32, -1, 0, Mode::async);
      std::thread waiter([&] { (void)failure_of([&] { r.engine->wait(*oldest, std::chrono::seconds(-1)); }); });
      // The other one is missing until it has said that it waits, too.
      std::vector<Wait> found;
      do {
        found = r.engine->waits();
        std::this_thread::yield();
      } while (found[0].missing.size() != 1 || found[0].thread == 0);
      CHECK(found.size() == 2);
      CHECK(found[0].operation == oldest->id);
      CHECK(found[0].what == "all_reduce #1 float32[5000] SUM");
      CHECK(found[0].missing[0].who == "rank 2 (thread)");
      CHECK(found[0].missing[0].last.starts_with("all_reduce #0 float32[10] SUM"));
      CHECK(found[0].time.count() > 0);
      CHECK(found[0].thread == std::bit_cast<std::uintptr_t>(waiter.native_handle()));
      CHECK(contains(found[1].what, "recv"));
      CHECK(!found[1].missing.empty());  // from any rank, but the other one may have said that it waits
      CHECK(found[1].thread == 0);
      done.arrive_and_wait();
      r.engine->abort(*r.group, "enough");
      waiter.join();
      CHECK(r.engine->waits().empty());
    });
  });
}

TEST(who_has_nothing_under_way_says_where_it_is_to_who_waits_for_it_on_another_machine) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::atomic<bool> heard = false;
  world.run([&](Rank& r) {
    reduce_floats(r, 10);
    const std::string line = "late.py:7\n" + std::string(300, 'x');
    if (r.rank == 1) {
      while (!heard) {
        r.engine->questions();  // reads what has come, and so must not hide who waits
        r.engine->tell_line(line);
        std::this_thread::yield();
      }
      reduce_floats(r, 10);
      return;
    }
    std::vector<float> data(10, 1);
    const auto began = Clock::now();
    const auto late =
        all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
    std::vector<Wait> found;
    do {
      found = r.engine->waits();
      std::this_thread::yield();
    } while (found[0].missing.empty() || found[0].missing[0].line.empty());
    CHECK(found[0].missing[0].line == "late.py:7?" + std::string(245, 'x'));
    CHECK(found[0].missing[0].ago.count() >= 0 && found[0].missing[0].ago <= Clock::now() - began);
    heard = true;
    r.engine->wait(*late, std::chrono::seconds(-1));
  });
}

// A thread that sleeps here may read before the one that looks from time to time.
TEST(who_has_nothing_under_way_says_where_it_is_whichever_of_its_threads_reads) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::atomic<bool> looked = false;
  std::atomic<bool> heard = false;
  world.run([&](Rank& r) {
    reduce_floats(r, 10);
    if (r.rank == 1) {
      while (!heard) {
        r.engine->questions();
        looked = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        r.engine->tell_line("late.py:7");
      }
      reduce_floats(r, 10);
      return;
    }
    while (!looked) std::this_thread::yield();
    std::vector<float> data(10, 1);
    const auto late =
        all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
    std::vector<Wait> found;
    do {
      CHECK(!r.engine->is_over(*late));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      found = r.engine->waits();
    } while (found.empty() || found[0].missing.empty() || found[0].missing[0].line.empty());
    CHECK(found[0].missing[0].line == "late.py:7");
    heard = true;
    r.engine->wait(*late, std::chrono::seconds(-1));
  });
}

TEST(asynchronous_operations_time_out_too) {
  World world(2, [](int, int) { return Wire::shm; }, false, 0.3);
  world.run([&](Rank& r) {
    if (r.rank == 1) return;
    std::vector<float> data(10);
    const auto handle =
        all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
    while (!r.engine->is_over(*handle)) std::this_thread::yield();
    CHECK(handle->error().kind == ErrorKind::timeout);
  });
}

TEST(an_abort_reaches_everybody) {
  on_every_wire([](Wire wire) {
    World world(3, [=](int, int) { return wire; });
    world.run([&](Rank& r) {
      if (r.rank == 0) {
        r.engine->abort(*r.group, "the user asked");
        return;
      }
      const auto error = failure_of([&] { reduce_floats(r, 5000); });
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(contains(error.message, "the user asked"));
    });
  });
}

TEST(one_group_fails_and_another_goes_on) {
  World world(2, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    auto other = r.engine->add_group(77, r.rank, r.peers, std::chrono::seconds(60), plans_for(2, false));
    (void)failure_of([&] { reduce_floats(r, r.rank == 0 ? 5 : 6); });
    std::vector<float> data(100, 1);
    all_reduce(*r.engine, *other, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
    CHECK(data[99] == 2);
  });
}

TEST(a_timeout_that_is_longer_than_clocks_count_never_comes) {
  World world(2, [](int, int) { return Wire::shm; }, false, std::numeric_limits<double>::infinity());
  world.run([&](Rank& r) {
    std::vector<float> data(100, 1);
    if (r.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one looks at the clock
    const auto sum = all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
    r.engine->wait(*sum, std::chrono::duration<double>(1e300));
    CHECK(data[99] == 2);
  });
}

TEST(bad_arguments_are_refused) {
  World world(1, [](int, int) { return Wire::shm; });
  world.run([&](Rank& r) {
    std::vector<float> data(4);
    const auto call = [&](DType dtype, Op op, std::byte* at) {
      return failure_of([&] { all_reduce(*r.engine, *r.group, at, 4, dtype, op, 1, Mode::blocking); }).kind;
    };
    CHECK(call(DType::float32, Op::bxor, bytes(data)) == ErrorKind::invalid);
    CHECK(call(DType::boolean, Op::avg, bytes(data)) == ErrorKind::invalid);
    CHECK(call(DType::float32, Op::sum, nullptr) == ErrorKind::invalid);
    const auto root =
        failure_of([&] { broadcast(*r.engine, *r.group, bytes(data), 4, DType::float32, 1, Mode::blocking); });
    CHECK(root.kind == ErrorKind::invalid);
  });
}
