// Ranks submit named requests in any order: all of them are carried out, right to the bit.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "tests/coordinator/coordinators.hpp"

using namespace paceline;
using namespace paceline::test;

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
        std::vector<std::shared_ptr<PendingRequest>> requests;
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

TEST(every_callback_runs_once_and_may_submit_the_next_request) {
  everywhere({}, [](Coordinated& job) {
    job.run([&](Coordinated::Seated seat) {
      constexpr int kNames = 20;
      constexpr int kRounds = 3;
      std::vector<std::vector<float>> tensors;
      for (int i = 0; i < kNames; ++i) tensors.push_back(ramp(static_cast<std::size_t>(i * i * 10), seat.rank(), i));
      std::vector<std::atomic<int>> calls(kNames);
      std::atomic<int> left = kNames;
      std::function<void(std::size_t)> next = [&](std::size_t i) {
        seat.all_reduce_alone("tensor " + std::to_string(i), tensors[i], [&, i](PendingRequest& pending) {
          CHECK(pending.state() == Operation::State::done);
          check_sum(tensors[i], job.size(), static_cast<int>(i));
          tensors[i] = ramp(tensors[i].size(), seat.rank(), static_cast<int>(i));
          if (++calls[i] < kRounds)
            next(i);
          else
            --left;
        });
      };
      for (std::size_t i = 0; i < kNames; ++i) next(i);
      const auto deadline = Clock::now() + std::chrono::seconds(20);
      while (left > 0) {
        CHECK(Clock::now() < deadline);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      for (const auto& count : calls) CHECK(count == kRounds);
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
        const auto gather = seat.coordinator.submit({"gather",
                                                     {.collective = Collective::all_gather,
                                                      .source = bytes(rows),
                                                      .count = rows.size(),
                                                      .dtype = DType::float32},
                                                     "*"});
        auto everybodys = ramp(scale, seat.rank());
        const int root = job.size() - 1;
        const auto cast = seat.coordinator.submit({"cast",
                                                   {.collective = Collective::broadcast,
                                                    .target = bytes(everybodys),
                                                    .count = scale,
                                                    .dtype = DType::float32,
                                                    .root = root}});
        // Rank r gives rank s (r + s) elements.
        std::vector<float> all;
        std::vector<std::size_t> counts;
        for (std::size_t to = 0; to < size; ++to) {
          counts.push_back((me + to) * scale);
          all.resize(all.size() + counts.back(), static_cast<float>(100 * me + to));
        }
        RequestArguments trade{
            "trade",
            {.collective = Collective::all_to_all, .source = bytes(all), .count = all.size(), .dtype = DType::float32},
            "*"};
        trade.counts = counts;
        const auto traded = seat.coordinator.submit(trade);
        // Part r has r elements, and none is as long as another.
        std::vector<std::size_t> parts;
        std::size_t total = 0;
        for (std::size_t to = 0; to < size; ++to) total += parts.emplace_back(to * scale);
        auto whole = ramp(total, seat.rank());
        std::vector<float> part(parts[me]);
        RequestArguments scatter{"scatter",
                                 {.collective = Collective::reduce_scatter,
                                  .source = bytes(whole),
                                  .target = bytes(part),
                                  .count = total,
                                  .dtype = DType::float32}};
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
      std::vector<std::shared_ptr<PendingRequest>> requests;
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
    std::vector<std::shared_ptr<PendingRequest>> requests;
    for (int i = 0; i < 20; ++i) data.push_back(ramp(100, seat.rank(), i));
    for (auto& each : data) requests.push_back(seat.all_reduce("again", each));
    for (const auto& request : requests) seat.wait(request);
    for (int i = 0; i < 20; ++i) check_sum(data[static_cast<std::size_t>(i)], job.size(), i);
  });
}

TEST(plans_change_between_the_same_batches_while_ranks_submit) {
  constexpr int kRounds = 6;
  constexpr int kTensors = 24;
  constexpr std::uint64_t kLarge = 3;  // a round's, each in a batch of its own
  for (const std::string policy : {"board", "cycle"}) {
    for (const std::string machines : {"01", "011"}) {
      Coordinated job(machines, policy, {.fusion_bytes = 100'000, .cycle_seconds = 0.0005});
      job.run([&](Coordinated::Seated seat) {
        Engine& engine = *seat.r.engine;
        engine.count_large(seat.moving, 1);
        for (int round = 0; round < kRounds; ++round) {
          std::vector<std::vector<float>> tensors;
          std::vector<std::shared_ptr<PendingRequest>> requests;
          for (int i = 0; i < kTensors; ++i)
            tensors.push_back(ramp(static_cast<std::size_t>(i % 8 == 0 ? 300'000 : 5'000), seat.rank(), i));
          const auto is_over = [&](const auto& request) { return engine.is_over(*request); };
          for (int i = 0; i < kTensors; ++i)
            requests.push_back(seat.all_reduce("tensor " + std::to_string(i), tensors[static_cast<std::size_t>(i)]));
          // Before the second large batch of this round, then before that of the next one.
          const std::uint64_t stop = kLarge * static_cast<std::uint64_t>(round) + 1;
          const auto deadline = Clock::now() + std::chrono::seconds(20);
          while (engine.large_calls(seat.moving, 0).calls.size() < stop ||
                 engine.large_calls(seat.moving, stop - 1).calls.front().seconds < 0) {
            CHECK(Clock::now() < deadline);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          CHECK(!std::ranges::all_of(requests, is_over));
          engine.set_plans(seat.moving, plans_for(job.size(), round % 2 == 0));
          CHECK(engine.large_calls(seat.moving, 0).count == stop);
          engine.stop_before(seat.moving, stop + kLarge);
          for (const auto& request : requests) seat.wait(request);
          for (int i = 0; i < kTensors; ++i) check_sum(tensors[static_cast<std::size_t>(i)], job.size(), i);
        }
        const auto large = engine.large_calls(seat.moving, 0);
        CHECK(large.count == kLarge * kRounds && large.calls.size() == large.count && large.most_under_way == 0);
        for (const auto& batch : large.calls)
          CHECK(batch.collective == Collective::all_reduce && batch.bytes >= std::uint64_t{1} << 20);
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
