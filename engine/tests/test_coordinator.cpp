// Ranks hand in named requests in any order: all of them are carried out, right to the bit, and errors are named.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <set>

#include "coordinators.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

// The machine of each rank. Under sanitizers, which take several times as long, fewer have to do.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const std::vector<std::string> kArrangements = {"000", "010"};
#else
const std::vector<std::string> kArrangements = {"0", "00", "000", "0000", "01", "0011", "010"};
#endif

const std::vector<std::string> kPolicies = {"board", "cycle", "global_sleep", "nonblocking"};

// With all policies at once: their ranks mostly wait for one another.
void everywhere(PolicyOptions options, const std::function<void(Coordinated&)>& body) {
  options.cycle_seconds = 0.0005;
  options.wait = Synchronise::Wait::yield;
  std::vector<std::thread> jobs;
  for (const std::string& policy : kPolicies)
    jobs.emplace_back([&] {
      for (const auto& machines : kArrangements) {
        Coordinated job(machines, policy, options);
        body(job);
      }
    });
  for (std::thread& job : jobs) job.join();
}

float sum_of_ranks(int size) { return static_cast<float>(size * (size + 1) / 2); }

std::vector<float> ramp(std::size_t count, int rank, int salt = 0) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<float>((i + static_cast<std::size_t>(salt)) % 13 + 1) * static_cast<float>(rank + 1);
  return data;
}

void check_sum(const std::vector<float>& data, int size, int salt = 0) {
  const auto expected = ramp(data.size(), 0, salt);
  for (std::size_t i = 0; i < data.size(); ++i) CHECK(data[i] == expected[i] * sum_of_ranks(size));
}

}  // namespace

TEST(one_request_after_the_other) {
  everywhere({}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      for (int step = 0; step < 30; ++step) {
        auto data = ramp(static_cast<std::size_t>(step * step), seat.rank(), step);
        seat.wait(seat.all_reduce("same name", data));
        check_sum(data, job.size(), step);
      }
    });
  });
}

TEST(many_requests_in_another_order_on_every_rank) {
  everywhere({.fusion_bytes = 100'000}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      std::mt19937 random(static_cast<unsigned>(seat.rank()));
      for (int step = 0; step < 3; ++step) {
        std::vector<std::vector<float>> tensors;
        for (int i = 0; i < 100; ++i)
          tensors.push_back(ramp(static_cast<std::size_t>(1 + i * i * 7 % 6000), seat.rank(), i));
        std::vector<int> order(tensors.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
        std::shuffle(order.begin(), order.end(), random);
        std::vector<std::shared_ptr<Requested>> requests;
        for (const int i : order)
          requests.push_back(seat.all_reduce("tensor " + std::to_string(i), tensors[static_cast<std::size_t>(i)]));
        std::shuffle(requests.begin(), requests.end(), random);
        for (const auto& request : requests) seat.wait(request);
        for (int i = 0; i < 100; ++i) check_sum(tensors[static_cast<std::size_t>(i)], job.size(), i);
      }
      CHECK(seat.coordinator.totals().batches <= 300);
    });
  });
}

TEST(nobody_waits_and_all_is_done) {
  // The serving threads do it alone.
  everywhere({}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      auto one = ramp(1000, seat.rank());
      auto two = ramp(100'000, seat.rank());
      const auto first = seat.all_reduce("one", one);
      const auto second = seat.all_reduce("two", two);
      const auto deadline = Clock::now() + std::chrono::seconds(20);
      while (!(seat.r.engine->is_over(*first) && seat.r.engine->is_over(*second))) {
        CHECK(Clock::now() < deadline);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      check_sum(one, job.size());
      check_sum(two, job.size());
    });
  });
}

TEST(scales_and_averages) {
  Coordinated job("00");
  job.run([&](Coordinated::Seated seat) {
    std::vector<float> one(100'000, static_cast<float>(seat.rank() + 1));
    std::vector<float> two(3, static_cast<float>(seat.rank() + 1));
    std::vector<float> three(5, 8);
    const auto a = seat.all_reduce("a", one, Op::sum, 0.5, 4);
    const auto b = seat.all_reduce("b", two, Op::sum, 0.5, 4);
    const auto c = seat.all_reduce("c", three, Op::avg);
    for (const auto& request : {a, b, c}) seat.wait(request);
    for (const float value : one) CHECK(value == 6);
    for (const float value : two) CHECK(value == 6);
    for (const float value : three) CHECK(value == 8);
  });
}

TEST(every_kind) {
  everywhere({}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      const auto size = static_cast<std::size_t>(job.size());
      const auto me = static_cast<std::size_t>(seat.rank());
      for (const std::size_t scale : {std::size_t{1}, std::size_t{5000}}) {
        // Rank r gives r rows: the first none.
        std::vector<float> rows(me * scale, static_cast<float>(me));
        const auto gather = seat.coordinator.submit(
            {"gather", {0, -1, Collective::all_gather, DType::float32, Op::sum}, "*", bytes(rows), rows.size()});
        auto everybodys = ramp(scale, seat.rank());
        const int root = job.size() - 1;
        const auto cast = seat.coordinator.submit(
            {"cast", {scale, root, Collective::broadcast, DType::float32, Op::sum}, "", bytes(everybodys), scale});
        // Rank r gives rank s (r + s) elements.
        std::vector<float> all;
        std::vector<std::size_t> counts;
        for (std::size_t to = 0; to < size; ++to) {
          counts.push_back((me + to) * scale);
          all.resize(all.size() + counts.back(), static_cast<float>(100 * me + to));
        }
        Wish trade{"trade", {0, -1, Collective::all_to_all, DType::float32, Op::sum}, "*", bytes(all), all.size()};
        trade.counts = counts;
        const auto traded = seat.coordinator.submit(trade);
        // Part r has r elements, and none is as long as another.
        std::vector<std::size_t> parts;
        std::size_t total = 0;
        for (std::size_t to = 0; to < size; ++to) total += parts.emplace_back(to * scale);
        auto whole = ramp(total, seat.rank());
        std::vector<float> part(parts[me]);
        Wish scatter{
            "scatter", {total, -1, Collective::reduce_scatter, DType::float32, Op::sum}, "", bytes(whole), total};
        scatter.target = bytes(part);
        scatter.counts = parts;
        scatter.postscale = 2;
        const auto scattered = seat.coordinator.submit(scatter);
        const auto met = seat.barrier("barrier");
        for (const auto& request : {gather, cast, traded, scattered, met}) seat.wait(request);

        CHECK(gather->counts.size() == size);
        const auto* got = reinterpret_cast<const float*>(gather->output->data());
        for (std::size_t rank = 0; rank < size; ++rank) {
          CHECK(gather->counts[rank] == rank * scale);
          for (std::size_t i = 0; i < rank * scale; ++i) CHECK(*got++ == static_cast<float>(rank));
        }
        CHECK(everybodys == ramp(scale, root));
        got = reinterpret_cast<const float*>(traded->output->data());
        for (std::size_t rank = 0; rank < size; ++rank) {
          CHECK(traded->counts[rank] == (me + rank) * scale);
          for (std::size_t i = 0; i < (me + rank) * scale; ++i) CHECK(*got++ == static_cast<float>(100 * rank + me));
        }
        const auto expected = ramp(total, 0);
        std::size_t begin = 0;
        for (std::size_t rank = 0; rank < me; ++rank) begin += parts[rank];
        for (std::size_t i = 0; i < part.size(); ++i)
          CHECK(part[i] == 2 * expected[begin + i] * sum_of_ranks(job.size()));
      }
    });
  });
}

TEST(a_disagreement_fails_one_request_on_all_ranks_and_no_other) {
  everywhere({}, [](Coordinated& job) {
    if (job.size() == 1) return;
    job.run([&](Coordinated::Seated seat) {
      for (int step = 0; step < 3; ++step) {
        std::vector<float> bad(seat.rank() == 1 ? 5 : 4, 1);
        auto good = ramp(10, seat.rank());
        const auto one = seat.all_reduce("bad", bad);
        const auto other = seat.all_reduce("good", good);
        const auto error = failure_of([&] { seat.wait(one); });
        CHECK(error.kind == ErrorKind::mismatch);
        CHECK(contains(error.message, "\"bad\""));
        CHECK(contains(error.message, "rank 1"));
        CHECK(contains(error.message, "4") && contains(error.message, "5"));
        seat.wait(other);
        check_sum(good, job.size());
      }
    });
  });
}

TEST(who_has_joined_gives_zeros) {
  everywhere({}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      for (int epoch = 0; epoch < 3; ++epoch) {
        // Rank r has r + 1 steps.
        for (int step = 0; step <= seat.rank(); ++step) {
          auto data = ramp(2000, seat.rank(), step);
          auto small = ramp(3, seat.rank(), step);
          const auto one = seat.all_reduce("data", data);
          const auto two = seat.all_reduce("small", small);
          seat.wait(two);
          seat.wait(one);
          float expected = 0;
          for (int rank = step; rank < job.size(); ++rank) expected += static_cast<float>(rank + 1);
          const auto base = ramp(2000, 0, step);
          for (std::size_t i = 0; i < data.size(); ++i) CHECK(data[i] == base[i] * expected);
          for (std::size_t i = 0; i < small.size(); ++i) CHECK(small[i] == base[i] * expected);
        }
        const auto joined = seat.coordinator.join();
        seat.wait(joined);
        CHECK(joined->last_to_join >= 0 && joined->last_to_join < job.size());
      }
    });
  });
}

TEST(bundles_are_carried_out_together) {
  Coordinated job("000");
  job.run([&](Coordinated::Seated seat) {
    for (std::uint64_t step = 1; step < 20; ++step) {
      std::vector<std::vector<float>> data;
      for (int i = 0; i < 4; ++i) data.push_back(ramp(50, seat.rank(), i));
      std::vector<std::shared_ptr<Requested>> requests;
      for (int i = 0; i < 4; ++i) {
        const int which = (i + seat.rank()) % 4;
        requests.push_back(seat.all_reduce("bundled " + std::to_string(which), data[static_cast<std::size_t>(which)],
                                           Op::sum, 1, 1, {step, 4}));
      }
      for (const auto& request : requests) seat.wait(request);
      for (int i = 0; i < 4; ++i) check_sum(data[static_cast<std::size_t>(i)], job.size(), i);
    }
    std::set<std::uint64_t> batches;
    for (const Record& record : seat.coordinator.records()) batches.insert(record.batch);
    CHECK(batches.size() == 19);
  });
}

TEST(a_name_may_be_used_again_at_once) {
  Coordinated job("00");
  job.run([&](Coordinated::Seated seat) {
    std::vector<std::vector<float>> data;
    std::vector<std::shared_ptr<Requested>> requests;
    for (int i = 0; i < 20; ++i) data.push_back(ramp(100, seat.rank(), i));
    for (auto& each : data) requests.push_back(seat.all_reduce("again", each));
    for (const auto& request : requests) seat.wait(request);
    for (int i = 0; i < 20; ++i) check_sum(data[static_cast<std::size_t>(i)], job.size(), i);
  });
}

TEST(a_timeout_names_the_request_and_who_is_missing) {
  std::vector<std::thread> jobs;  // at once, as all of them wait
  for (const auto& [policy, machines] : {std::pair{"board", "000"},
                                         {"board", "001"},
                                         {"board", "011"},
                                         {"board", "0122"},
                                         {"cycle", "000"},
                                         {"nonblocking", "011"}}) {
    jobs.emplace_back([policy, machines] {
      Coordinated job(machines, policy, {.wait = Synchronise::Wait::yield}, 1);
      job.run([&](Coordinated::Seated seat) {
        std::vector<float> data(4096, 1);
        if (seat.rank() == 2) return;
        const auto error = failure_of([&] { seat.wait(seat.all_reduce("layer3.weight", data)); });
        CHECK(error.kind == ErrorKind::timeout);
        CHECK(contains(error.message, "all_reduce \"layer3.weight\" float32[4096] SUM"));
        CHECK(contains(error.message, "rank 2"));
        // From now on nothing starts.
        CHECK(failure_of([&] { seat.all_reduce("other", data); }).kind == ErrorKind::timeout);
      });
    });
  }
  for (std::thread& job : jobs) job.join();
}

TEST(warnings_name_each_request_with_who_is_missing) {
  Coordinated job("000");
  std::barrier<> all(3);
  job.run([&](Coordinated::Seated seat) {
    std::vector<float> a(4, 1);
    std::vector<float> b(4, 1);
    std::vector<float> c(4, 1);
    std::vector<std::shared_ptr<Requested>> requests;
    if (seat.rank() != 2) requests.push_back(seat.all_reduce("a", a));
    if (seat.rank() != 2) requests.push_back(seat.all_reduce("b", b));
    if (seat.rank() == 0) requests.push_back(seat.all_reduce("c", c));
    all.arrive_and_wait();
    if (seat.rank() == 0) {
      const auto waits = seat.r.engine->waits();
      CHECK(waits.size() == 2);
      CHECK(waits[0].what == "all_reduce \"a\" float32[4] SUM and 1 more");
      CHECK(waits[0].missing.size() == 1 && contains(waits[0].missing[0].who, "rank 2"));
      CHECK(waits[1].what == "all_reduce \"c\" float32[4] SUM");
      CHECK(waits[1].missing.size() == 2);
    }
    all.arrive_and_wait();
    if (seat.rank() == 2) requests.push_back(seat.all_reduce("a", a));
    if (seat.rank() == 2) requests.push_back(seat.all_reduce("b", b));
    if (seat.rank() != 0) requests.push_back(seat.all_reduce("c", c));
    for (const auto& request : requests) seat.wait(request);
  });
}

TEST(who_hands_in_nothing_says_where_it_is_to_who_waits_on_another_machine) {
  Coordinated job("01");
  for (const int late : {0, 1}) {
    std::atomic<bool> heard = false;
    job.run([&](Coordinated::Seated seat) {
      std::vector<float> a(4, 1);
      seat.wait(seat.all_reduce("a", a));
      if (seat.rank() == late) {
        while (!heard) {
          seat.r.engine->tell_line("late.py:7");
          std::this_thread::yield();
        }
      }
      const auto request = seat.all_reduce("a", a);
      for (std::vector<Wait> found; seat.rank() != late && !heard; std::this_thread::yield()) {
        found = seat.r.engine->waits();
        heard = !found.empty() && !found[0].missing.empty() && found[0].missing[0].line == "late.py:7";
      }
      seat.wait(request);
    });
  }
}

TEST(who_leaves_is_missed) {
  for (const auto& machines : {"00", "01"}) {
    Coordinated job(machines);
    job.run([&](Coordinated::Seated seat) {
      std::vector<float> data(10, 1);
      seat.wait(seat.all_reduce("first", data));
      if (seat.rank() == 1) {
        seat.coordinator.close();
        return;
      }
      const auto error = failure_of([&] { seat.wait(seat.all_reduce("second", data)); });
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(contains(error.message, "rank 1"));
      CHECK(contains(error.message, "\"second\""));
    });
  }
}

TEST(bad_wishes_are_refused) {
  Coordinated job("0");
  job.run([&](Coordinated::Seated seat) {
    std::vector<float> data(4, 1);
    const auto refused = [&](const Wish& wish, const std::string& why) {
      const auto error = failure_of([&] { seat.coordinator.submit(wish); });
      CHECK(error.kind == ErrorKind::invalid);
      CHECK(contains(error.message, why));
    };
    Wish good{"x", {4, -1, Collective::all_reduce, DType::float32, Op::sum}, "", bytes(data), 4};
    Wish wish = good;
    wish.name = "";
    refused(wish, "needs a name");
    wish = good;
    wish.data = nullptr;
    refused(wish, "null");
    wish = good;
    wish.what.op = Op::band;
    refused(wish, "BAND is not defined for float32");
    wish = good;
    wish.what.dtype = DType::int32;
    wish.prescale = 2;
    refused(wish, "int32 cannot be scaled");
    wish = good;
    wish.what.collective = Collective::broadcast;
    wish.what.root = 1;
    refused(wish, "from 0 to 0, got 1");
    wish = good;
    wish.what.collective = Collective::all_to_all;
    wish.counts = {3};
    refused(wish, "add up to 4");
    seat.wait(seat.coordinator.submit(good));
  });
}

TEST(plans_change_between_the_same_batches_while_ranks_hand_in) {
  for (const std::string policy : {"board", "cycle"}) {
    for (const std::string machines : {"01", "011"}) {
      Coordinated job(machines, policy, {.fusion_bytes = 100'000, .cycle_seconds = 0.0005});
      std::barrier<> all(job.size());
      std::atomic<std::uint64_t> most = 0;
      job.run([&](Coordinated::Seated seat) {
        for (int round = 0; round < 6; ++round) {
          std::vector<std::vector<float>> tensors;
          std::vector<std::shared_ptr<Requested>> requests;
          const auto hand_in = [&](int from, int to) {
            for (int i = from; i < to; ++i)
              requests.push_back(seat.all_reduce("tensor " + std::to_string(i), tensors[static_cast<std::size_t>(i)]));
          };
          for (int i = 0; i < 24; ++i)
            tensors.push_back(ramp(static_cast<std::size_t>(i % 8 == 0 ? 300'000 : 5'000), seat.rank(), i));
          if (seat.rank() == 0) most = 0;
          all.arrive_and_wait();
          hand_in(0, 8 + 8 * (seat.rank() % 2));
          const std::uint64_t begun = seat.coordinator.hold();
          for (std::uint64_t seen = most; seen < begun && !most.compare_exchange_weak(seen, begun);) continue;
          all.arrive_and_wait();
          seat.coordinator.hold_after(most);
          const auto deadline = Clock::now() + std::chrono::seconds(20);
          while (!seat.coordinator.holds()) {
            CHECK(Clock::now() < deadline);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          hand_in(static_cast<int>(requests.size()), 24);
          CHECK(seat.coordinator.holds());
          CHECK(!seat.r.engine->is_over(*requests.back()));
          seat.r.engine->set_plans(seat.moving, plans_for(job.size(), round % 2 == 0));
          seat.coordinator.release();
          for (const auto& request : requests) seat.wait(request);
          for (int i = 0; i < 24; ++i) check_sum(tensors[static_cast<std::size_t>(i)], job.size(), i);
        }
        const LargeBatches large = seat.coordinator.large_batches();
        CHECK(large.count == 18 && large.last.size() == 18);
        for (const auto& batch : large.last) CHECK(batch.bytes >= std::uint64_t{1} << 20);
      });
    }
  }
}

TEST(two_coordinators_know_nothing_of_each_other) {
  // Ranks use them in opposite orders.
  Coordinated one("00");
  Coordinated other("00");
  one.run([&](Coordinated::Seated) {});
  std::thread second([&] {
    other.run([&](Coordinated::Seated seat) {
      std::vector<float> data(10, 1);
      for (int i = 0; i < 100; ++i) seat.wait(seat.all_reduce("x", data));
    });
  });
  one.run([&](Coordinated::Seated seat) {
    for (int i = 0; i < 100; ++i) {
      auto data = ramp(10, seat.rank());
      seat.wait(seat.all_reduce("x", data));
      check_sum(data, 2);
    }
  });
  second.join();
}

TEST(an_order_known_beforehand) {
  for (const auto& machines : kArrangements) {
    Coordinated job(machines, "graph");
    job.run([&](Coordinated::Seated seat) {
      std::vector<std::vector<std::string>> order;
      for (int buffer = 0; buffer < 4; ++buffer)
        for (int slot = 0; slot < 3; ++slot) {
          if (slot == 0) order.emplace_back();
          order.back().push_back("tensor " + std::to_string(3 * buffer + slot));
        }
      seat.coordinator.set_order(order);
      std::mt19937 random(static_cast<unsigned>(seat.rank()));
      const auto step = [&](int number, int tensors, bool waits_early) {
        std::vector<std::vector<float>> data;
        for (int i = 0; i < tensors; ++i)
          data.push_back(ramp(static_cast<std::size_t>(1 + i * 3000), seat.rank(), number));
        std::vector<int> turns(static_cast<std::size_t>(tensors));
        for (int i = 0; i < tensors; ++i) turns[static_cast<std::size_t>(i)] = i;
        if (!waits_early) std::shuffle(turns.begin(), turns.end(), random);
        std::vector<std::shared_ptr<Requested>> requests;
        for (const int i : turns) {
          // What is not in the order is on the board, and what is waited for alone deviates from it.
          const auto request = seat.all_reduce("tensor " + std::to_string(i), data[static_cast<std::size_t>(i)]);
          if (waits_early) seat.wait(request);
          requests.push_back(request);
        }
        for (const auto& request : requests) seat.wait(request);
        for (const auto& each : data) check_sum(each, job.size(), number);
      };
      int number = 0;
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 6; ++i) step(number++, 12, false);
        step(number++, 14, false);
        step(number++, 12, true);
        step(number++, 7, true);
      }
      const auto counters = seat.coordinator.counters();
      CHECK(counters.deviations > 0);
      CHECK(seat.coordinator.sayings().size() == 1);
    });
  }
}

// Rank 0 has carried out its part of the first buffer of a run when it deviates in the second; the others hear of that
// before they have begun on the run's channel. The first buffer still is for all of them.
TEST(what_comes_before_a_deviation_is_carried_out_by_who_hears_of_that_first) {
  for (const auto& machines : {"00", "01", "000", "011"}) {
    Coordinated job(machines, "graph", {}, 20);
    std::barrier<> all(job.size());
    job.run([&](Coordinated::Seated seat) {
      seat.coordinator.set_order({{"a", "b"}, {"c", "d"}});
      const auto hand_in = [&](const std::string& name, std::vector<float>& data) {
        data = ramp(3000, seat.rank());
        return seat.all_reduce(name, data);
      };
      std::array<std::vector<float>, 4> data;
      const auto step = [&] {
        std::vector<std::shared_ptr<Requested>> requests;
        for (std::size_t i = 0; i < data.size(); ++i) requests.push_back(hand_in(std::string(1, "abcd"[i]), data[i]));
        for (const auto& request : requests) seat.wait(request);
        for (const auto& each : data) check_sum(each, job.size());
      };
      for (int i = 0; i < 3; ++i) {
        step();  // the first is negotiated, then there is a run
        all.arrive_and_wait();
        const auto before = seat.coordinator.counters().deviations;
        std::vector<float> other;
        if (seat.rank() == 0) {
          const auto a = hand_in("a", data[0]);
          const auto b = hand_in("b", data[1]);
          const auto c = hand_in("c", data[2]);
          seat.wait(c);
          CHECK(seat.coordinator.counters().deviations == before + 1);
          const auto d = hand_in("d", data[3]);
          const auto last = hand_in("other", other);
          for (const auto& request : {a, b, d, last}) seat.wait(request);
        } else {
          const auto last = hand_in("other", other);  // so that it looks at the board
          const auto deadline = Clock::now() + std::chrono::seconds(20);
          while (seat.coordinator.counters().deviations == before) {
            CHECK(Clock::now() < deadline);
            std::this_thread::yield();
          }
          const auto a = hand_in("a", data[0]);
          const auto b = hand_in("b", data[1]);
          seat.wait(a);
          seat.wait(b);
          const auto c = hand_in("c", data[2]);
          const auto d = hand_in("d", data[3]);
          for (const auto& request : {c, d, last}) seat.wait(request);
        }
        for (const auto& each : data) check_sum(each, job.size());
        check_sum(other, job.size());
      }
    });
  }
}
