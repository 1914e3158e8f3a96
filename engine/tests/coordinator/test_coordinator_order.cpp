// Named requests in an order that all ranks know beforehand, and steps that do not keep to it.
#include <algorithm>
#include <array>
#include <barrier>
#include <random>
#include <thread>

#include "tests/coordinator/coordinators.hpp"

using namespace paceline;
using namespace paceline::test;

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
        std::vector<std::shared_ptr<PendingRequest>> requests;
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
      CHECK(seat.coordinator.warnings().size() == 1);
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
      const auto submit = [&](const std::string& name, std::vector<float>& data) {
        data = ramp(3000, seat.rank());
        return seat.all_reduce(name, data);
      };
      std::array<std::vector<float>, 4> data;
      const auto step = [&] {
        std::vector<std::shared_ptr<PendingRequest>> requests;
        for (std::size_t i = 0; i < data.size(); ++i) requests.push_back(submit(std::string(1, "abcd"[i]), data[i]));
        for (const auto& request : requests) seat.wait(request);
        for (const auto& each : data) check_sum(each, job.size());
      };
      for (int i = 0; i < 3; ++i) {
        step();  // the first is negotiated, then there is a run
        all.arrive_and_wait();
        const auto before = seat.coordinator.counters().deviations;
        std::vector<float> other;
        if (seat.rank() == 0) {
          const auto a = submit("a", data[0]);
          const auto b = submit("b", data[1]);
          const auto c = submit("c", data[2]);
          seat.wait(c);
          CHECK(seat.coordinator.counters().deviations == before + 1);
          const auto d = submit("d", data[3]);
          const auto last = submit("other", other);
          for (const auto& request : {a, b, d, last}) seat.wait(request);
        } else {
          const auto last = submit("other", other);  // so that it looks at the board
          const auto deadline = Clock::now() + std::chrono::seconds(20);
          while (seat.coordinator.counters().deviations == before) {
            CHECK(Clock::now() < deadline);
            std::this_thread::yield();
          }
          const auto a = submit("a", data[0]);
          const auto b = submit("b", data[1]);
          seat.wait(a);
          seat.wait(b);
          const auto c = submit("c", data[2]);
          const auto d = submit("d", data[3]);
          for (const auto& request : {c, d, last}) seat.wait(request);
        }
        for (const auto& each : data) check_sum(each, job.size());
        check_sum(other, job.size());
      }
    });
  }
}
