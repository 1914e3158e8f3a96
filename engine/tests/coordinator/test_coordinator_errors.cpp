// Named requests that cannot be carried out: what is wrong is said, and who is missing is named.
#include <atomic>
#include <barrier>
#include <thread>

#include "tests/coordinator/coordinators.hpp"

using namespace paceline;
using namespace paceline::test;

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

TEST(a_callback_hears_of_a_failure) {
  everywhere({}, [](Coordinated& job) {
    if (job.size() == 1) return;
    std::barrier<> all(job.size());
    job.run([&](Coordinated::Seated seat) {
      std::atomic<int> failed = 0;
      const auto note = [&](PendingRequest& pending) {
        CHECK(pending.state() == Operation::State::failed);
        ++failed;
      };
      const auto failures = [&](int count) {
        const auto deadline = Clock::now() + std::chrono::seconds(20);
        while (failed < count && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        CHECK(failed == count);
      };
      std::vector<float> bad(seat.rank() == 1 ? 5 : 4, 1);
      CHECK(contains(failure_of([&] { seat.wait(seat.all_reduce_alone("bad", bad, note)); }).message, "\"bad\""));
      failures(1);
      // Rank 0 alone submits this, so that it is under way until its coordinator is closed.
      std::vector<float> lonely(4, 1);
      if (seat.rank() == 0) {
        seat.all_reduce_alone("lonely", lonely, note);
        const auto again = failure_of([&] { seat.all_reduce_alone("lonely", lonely, note); });
        CHECK(again.kind == ErrorKind::invalid);
        CHECK(contains(again.message, "lonely is still under way"));
        CHECK(!seat.coordinator.closed());
        seat.coordinator.close();
        CHECK(seat.coordinator.closed());
        failures(2);
      }
      all.arrive_and_wait();
    });
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
      Coordinated job(machines, policy, {.wait = Synchronise::Wait::yield}, 2);
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
    std::vector<std::shared_ptr<PendingRequest>> requests;
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
      // Once rank 1 has said that it waits itself, rank 2 alone is to blame for this one, too.
      CHECK(waits[1].missing.size() <= 2 && contains(waits[1].missing.back().who, "rank 2"));
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

// Whether it closes its coordinator or its engine, and whatever the others wait for.
TEST(who_leaves_is_missed) {
  everywhere({}, [](Coordinated& job) {
    if (job.size() == 1) return;
    job.run([&](Coordinated::Seated seat) {
      std::vector<float> data(10, 1);
      seat.wait(seat.all_reduce("first", data));
      const int leaver = job.size() / 2;
      if (seat.rank() == leaver) {
        if (job.size() == 2) seat.r.engine->close();
        seat.coordinator.close();
        return;
      }
      const bool joins = seat.rank() == 0;
      const auto error =
          failure_of([&] { seat.wait(joins ? seat.coordinator.join() : seat.all_reduce("second", data)); });
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(contains(error.message, "rank " + std::to_string(leaver)));
      CHECK(contains(error.culprit, "rank " + std::to_string(leaver)));
      CHECK(contains(error.message, joins ? "join" : "\"second\""));
      const auto later = failure_of([&] { seat.all_reduce("third", data); });
      CHECK(later.kind == ErrorKind::aborted);
      CHECK(contains(later.culprit, "rank " + std::to_string(leaver)));
    });
  });
}

TEST(a_join_that_times_out_names_who_has_not_joined) {
  std::vector<std::thread> jobs;
  for (const std::string& policy : kPolicies) {
    jobs.emplace_back([policy] {
      Coordinated job("001", policy, {.wait = Synchronise::Wait::yield}, 1);
      job.run([&](Coordinated::Seated seat) {
        if (seat.rank() == 1) return;
        const auto error = failure_of([&] { seat.wait(seat.coordinator.join()); });
        CHECK(error.kind == ErrorKind::timeout);
        CHECK(contains(error.message, "join waits for rank 1"));
      });
    });
  }
  for (std::thread& job : jobs) job.join();
}

TEST(bad_wishes_are_refused) {
  Coordinated job("0");
  job.run([&](Coordinated::Seated seat) {
    std::vector<float> data(4, 1);
    const auto refused = [&](const RequestArguments& arguments, const std::string& why) {
      const auto error = failure_of([&] { seat.coordinator.submit(arguments); });
      CHECK(error.kind == ErrorKind::invalid);
      CHECK(contains(error.message, why));
    };
    const RequestArguments good{"x", all_reduce_of(data)};
    RequestArguments arguments = good;
    arguments.name = "";
    refused(arguments, "needs a name");
    arguments = good;
    arguments.call.target = nullptr;
    refused(arguments, "null");
    arguments = good;
    arguments.call.op = Op::band;
    refused(arguments, "BAND is not defined for float32");
    arguments = good;
    arguments.call.dtype = DType::int32;
    arguments.prescale = 2;
    refused(arguments, "int32 cannot be scaled");
    arguments = good;
    arguments.call.collective = Collective::broadcast;
    arguments.call.root = 1;
    refused(arguments, "from 0 to 0, got 1");
    arguments = good;
    arguments.call.collective = Collective::all_to_all;
    arguments.counts = {3};
    refused(arguments, "add up to 4");
    seat.wait(seat.coordinator.submit(good));
  });
}
