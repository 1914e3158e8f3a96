// Named requests on memory of a device, between processes that share it.
#include <csignal>
#include <numeric>

#include "tests/device/coordinating.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

// All-reduces that go in one batch.
class Bundled {
 public:
  Bundled(DeviceRank& self, Coordinating& seat, std::uint64_t id, const std::vector<std::size_t>& counts)
      : self_(self), seat_(seat), id_(id) {
    for (const std::size_t count : counts) values_.push_back(std::make_unique<DeviceValues<float>>(self, count));
  }

  void put() const {
    for (const auto& each : values_) each->put(ramp_of(each->count(), self_.rank()));
  }
  std::vector<float> get(std::size_t i) const { return values_[i]->get(); }
  RequestArguments arguments(std::size_t i, std::string& name, device::StreamHandle stream) const {
    name = "part" + std::to_string(i);
    RequestArguments one = seat_.arguments(name, *values_[i], DType::float32, stream);
    one.bundle = {id_, static_cast<std::uint32_t>(values_.size())};
    return one;
  }
  // As many of them, in an order of this rank's.
  std::vector<Coordinating::Request> submit(Op op = Op::sum, std::size_t most = SIZE_MAX,
                                            device::StreamHandle stream = nullptr) const {
    std::vector<Coordinating::Request> requests;
    for (std::size_t i = 0; i < std::min(most, values_.size()); ++i) {
      std::string name;
      RequestArguments one = arguments((i + static_cast<std::size_t>(self_.rank())) % values_.size(), name, stream);
      one.call.op = op;
      requests.push_back(seat_.coordinator().submit(one));
    }
    return requests;
  }

 private:
  DeviceRank& self_;
  Coordinating& seat_;
  const std::uint64_t id_;
  std::vector<std::unique_ptr<DeviceValues<float>>> values_;
};

}  // namespace

// Those of the host are among them.
TEST(requests_in_any_order) {
  for (const char* policy : {"board", "cycle", "nonblocking"}) {
    run({.size = 3}, [policy](DeviceRank& self) {
      Coordinating seat(self, policy);
      std::vector<std::unique_ptr<DeviceValues<float>>> values;
      for (const std::size_t count : {0, 3, 1000, 2000, 50'000, 300'000})
        values.push_back(std::make_unique<DeviceValues<float>>(self, count));
      for (int step = 0; step < 3; ++step) {
        for (const auto& each : values) each->put(ramp_of(each->count(), self.rank()));
        std::vector<float> here = ramp_of(500, self.rank());
        std::vector<Coordinating::Request> requests;
        requests.push_back(seat.on_host("host", here));
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t turn = (i + static_cast<std::size_t>(self.rank() + step)) % values.size();
          requests.push_back(seat.all_reduce("tensor" + std::to_string(turn), *values[turn]));
        }
        for (const auto& request : requests) seat.wait(request);
        CHECK(here == sum_of_ramps(500, self.size()));
        for (const auto& each : values) CHECK(each->get() == sum_of_ramps(each->count(), self.size()));
      }
    });
  }
}

TEST(bundles_go_together) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const std::vector<std::size_t> counts(70, 20'000);  // more than a group has under way at once
    const Bundled bundle(self, seat, 7, counts);
    bundle.put();
    for (const auto& request : bundle.submit()) seat.wait(request);
    for (std::size_t i = 0; i < counts.size(); ++i) CHECK(bundle.get(i) == sum_of_ramps(counts[i], 2));
    CHECK(seat.coordinator().totals().batches == 1);
  });
}

// With and without kernels; through the host, in one shot and in two; with empty tensors, and large ones that go alone.
TEST(small_tensors_of_a_bundle_go_as_one) {
  for (const bool kernels : {true, false}) {
    run({.size = 3, .kernels = kernels}, [kernels](DeviceRank& self) {
      Coordinating seat(self);
      std::uint64_t id = 1;
      for (const std::vector<std::size_t>& counts :
           std::vector<std::vector<std::size_t>>{{3, 0, 100, 1},
                                                 std::vector<std::size_t>(20, 1001),
                                                 std::vector<std::size_t>(20, 16'001),
                                                 {0, 0},
                                                 {5, 300'000, 7, 200}}) {
        const Bundled bundle(self, seat, id++, counts);
        for (int again = 0; again < 2; ++again) {
          bundle.put();
          const std::uint64_t before = double_calls("cuLaunchKernel");
          for (const auto& request : bundle.submit()) seat.wait(request);
          if (kernels) CHECK(double_calls("cuLaunchKernel") - before <= (counts.size() == 4 ? 2 : 1));
          for (std::size_t i = 0; i < counts.size(); ++i) CHECK(bundle.get(i) == sum_of_ramps(counts[i], 3));
        }
      }
    });
  }
}

TEST(small_tensors_that_go_as_one_are_reduced_as_alone) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    std::uint64_t id = 1;
    for (const Op op : {Op::avg, Op::min, Op::max, Op::product}) {
      const std::vector<std::size_t> counts = {10, 3000, 5001, 9};
      const Bundled bundle(self, seat, id++, counts);
      bundle.put();
      std::vector<std::vector<float>> right;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        right.push_back(ramp_of(counts[i], self.rank()));
        seat.wait(seat.coordinator().submit({"host",
                                             {.collective = Collective::all_reduce,
                                              .target = bytes(right[i]),
                                              .count = counts[i],
                                              .dtype = DType::float32,
                                              .op = op}}));
      }
      for (const auto& request : bundle.submit(op)) seat.wait(request);
      for (std::size_t i = 0; i < counts.size(); ++i) CHECK(bundle.get(i) == right[i]);
    }
  });
}

TEST(what_goes_as_one_comes_after_all_streams) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const Bundled bundle(self, seat, 1, {1000, 2000, 3000});
    bundle.put();
    TestStream stream(self);
    stream.hold();
    auto requests = bundle.submit(Op::sum, 2);
    std::string name;
    requests.push_back(
        seat.coordinator().submit(bundle.arguments(static_cast<std::size_t>(2 + self.rank()) % 3, name, stream.get())));
    self.meet();
    for (const auto& request : requests) CHECK(!self.engine().is_over(*request));
    stream.release();
    for (const auto& request : requests) seat.wait(request);
    CHECK(bundle.get(1) == sum_of_ramps(2000, 2));
  });
}

// It has submitted a part of a bundle before it joined.
TEST(zeros_of_a_rank_that_has_joined_among_what_goes_as_one) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    const std::vector<std::size_t> counts = {5, 3000, 1, 4000};
    const Bundled before(self, seat, 1, counts);
    before.put();
    for (const auto& request : before.submit()) seat.wait(request);
    const Bundled bundle(self, seat, 2, counts);
    bundle.put();
    auto requests = bundle.submit(Op::sum, self.rank() == 2 ? 2 : SIZE_MAX);  // rank 2: the parts 2 and 3
    requests.push_back(seat.coordinator().join());
    for (const auto& request : requests) seat.wait(request);
    if (self.rank() == 2) {
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) CHECK(bundle.get(i) == ramp_of(counts[i], 2));
    } else {
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) CHECK(bundle.get(i) == sum_of_ramps(counts[i], 2));
    }
    for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) CHECK(bundle.get(i) == sum_of_ramps(counts[i], 3));
  });
}

// What fails is named on both ranks, wherever it happens.
TEST(a_device_that_fails_while_tensors_go_as_one) {
  for (const char* function : {"cuMemAlloc", "cuMemcpyDtoDAsync", "cuLaunchKernel"}) {
    run({.size = 2}, [function](DeviceRank& self) {
      Coordinating seat(self);
      const DeviceValues<float> values(self, 20'000);
      seat.wait(seat.all_reduce("before", values));
      const Bundled bundle(self, seat, 1, {10'000, 12'000});
      bundle.put();
      self.meet();
      if (self.rank() == 1) fail_next(function);
      Error error;
      for (int again = 0; again < 3 && !error; ++again)  // rank 0 may be through with the first one
        error = failure_of([&] {
          for (const auto& request : bundle.submit()) seat.wait(request);
        });
      CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 1"));
      CHECK(contains(error.message, std::string(function) + " failed with CUDA_ERROR_OUT_OF_MEMORY"));
      finish(self);
    });
  }
}

TEST(a_rank_that_dies_while_tensors_go_as_one) {
  run({.size = 3, .leaves = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    seat.wait(seat.all_reduce("before", values));
    const Bundled bundle(self, seat, 1, {10'000, 12'000});
    bundle.put();
    double_hold(nullptr);
    const auto requests = bundle.submit();
    self.meet();
    if (self.rank() == 2) ::raise(SIGKILL);
    for (const auto& request : requests) {
      const Error error = seat.failed(request);
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
    }
    double_release();
    finish(self);
  });
}

TEST(every_reduction_as_on_the_host) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    for (const Op op : {Op::sum, Op::avg, Op::min, Op::max, Op::product}) {
      for (const std::size_t count : {std::size_t{100}, std::size_t{5000}, std::size_t{200'000}}) {
        const DeviceValues<std::int32_t> values(self, count);
        std::vector<std::int32_t> here(count);
        for (std::size_t i = 0; i < count; ++i)
          here[i] = static_cast<std::int32_t>((i + static_cast<std::size_t>(self.rank())) % 7) - 3;
        values.put(here);
        RequestArguments there = seat.arguments("there", values, DType::int32);
        there.call.op = op;
        RequestArguments plain{"here", there.call};
        plain.call.target = bytes(here);
        const auto first = seat.coordinator().submit(there);
        seat.wait(seat.coordinator().submit(plain));
        seat.wait(first);
        CHECK(values.get() == here);
      }
    }
  });
}

TEST(broadcasts_and_reduce_scatters) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    for (const std::size_t count : {std::size_t{6}, std::size_t{3000}, std::size_t{450'000}}) {
      const DeviceValues<float> values(self, count);
      values.put(ramp_of(count, self.rank()));
      RequestArguments root = seat.arguments("root", values, DType::float32);
      root.call.collective = Collective::broadcast;
      root.call.root = 1;
      seat.wait(seat.coordinator().submit(root));
      CHECK(values.get() == ramp_of(count, 1));

      const std::size_t third = count / 3;
      for (const auto& counts :
           {std::vector<std::size_t>{third, third, third}, {third + 1, third, third - 1}, {count, 0, 0}}) {
        values.put(ramp_of(count, self.rank()));
        const auto me = static_cast<std::size_t>(self.rank());
        const DeviceValues<float> part(self, counts[me]);
        RequestArguments scatter = seat.arguments("scatter", values, DType::float32);
        scatter.call.collective = Collective::reduce_scatter;
        scatter.call.source = scatter.call.target;
        scatter.call.target = device::pointer(part.address());
        scatter.counts = counts;
        seat.wait(seat.coordinator().submit(scatter));
        const auto sum = sum_of_ramps(count, self.size());
        const auto begin =
            sum.begin() + std::accumulate(counts.begin(), counts.begin() + self.rank(), std::ptrdiff_t{0});
        CHECK(part.get() == std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(counts[me])));
        CHECK(values.get() == ramp_of(count, self.rank()));
      }
    }
  });
}

// A request comes after what its stream had to do when it was submitted, and waits for nothing that came later.
TEST(a_request_comes_after_its_stream_and_before_what_comes_later) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    values.fill(0);
    TestStream stream(self);
    stream.hold();
    const std::vector<float> mine = ramp_of(values.count(), self.rank());
    values.put_on(stream.get(), mine);
    const auto request = seat.all_reduce("tensor", values, stream.get());
    double_hold(stream.get());
    self.meet();
    CHECK(!self.engine().is_over(*request));
    stream.release();
    seat.wait(request);
    CHECK(values.get() == sum_of_ramps(values.count(), 2));
    double_release();
  });
}

TEST(memory_of_the_host_and_of_a_device_under_one_name) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 5000);
    values.put(ramp_of(values.count(), self.rank()));
    const DeviceValues<float> other(self, 5000);
    std::vector<float> here(5000);
    const auto bad = self.rank() == 0 ? seat.all_reduce("bad", other) : seat.on_host("bad", here);
    const auto good = seat.all_reduce("good", values);
    const Error error = seat.failed(bad);
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "rank 0 gave all_reduce float32[5000] SUM on a device"));
    CHECK(contains(error.message, "rank 1 gave all_reduce float32[5000] SUM"));
    seat.wait(good);
    CHECK(values.get() == sum_of_ramps(values.count(), 2));
  });
}

// Everything fails then, as when a rank is lost.
TEST(a_device_that_fails_is_named_on_all_ranks) {
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuStreamIsCapturing", "cuStreamWaitEvent",
                               "cuMemcpyDtoDAsync", "cuLaunchKernel"}) {
    run({.size = 2}, [function](DeviceRank& self) {
      Coordinating seat(self);
      const DeviceValues<float> values(self, 20'000);
      seat.wait(seat.all_reduce("before", values));
      self.meet();
      if (self.rank() == 1) fail_next(function);
      Error error;
      for (int again = 0; again < 3 && !error; ++again)  // rank 0 may be through with the first one
        error = failure_of([&] { seat.wait(seat.all_reduce("tensor", values)); });
      CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 1"));
      CHECK(contains(error.message, std::string(function) + " failed with CUDA_ERROR_OUT_OF_MEMORY"));
      finish(self);
    });
  }
}

TEST(pinned_memory_that_a_rank_cannot_have) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 10);
    if (self.rank() == 1) fail_next("cuMemHostRegister");
    const Error error = seat.failed(seat.all_reduce("tensor", values));
    CHECK(error.kind == ErrorKind::aborted);
    CHECK(contains(error.message, "rank 1 cannot work on its device: cuMemHostRegister failed with"));
  });
}

TEST(a_rank_that_dies_is_named) {
  run({.size = 3, .leaves = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    seat.wait(seat.all_reduce("before", values));
    double_hold(nullptr);
    const auto request = seat.all_reduce("tensor", values);
    self.meet();
    if (self.rank() == 2) ::raise(SIGKILL);
    const Error error = seat.failed(request);
    CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
    double_release();
    finish(self);
  });
}

// How far it has come by then differs from one time to the next.
TEST(a_coordinator_that_closes_fails_what_is_under_way) {
  for (int again = 0; again < 8; ++again) {
    run({.size = 2}, [](DeviceRank& self) {
      Coordinating seat(self);
      const DeviceValues<float> values(self, 20'000);
      double_hold(nullptr);
      const auto request = seat.all_reduce("tensor", values);
      self.meet();
      double_release();
      if (self.rank() == 1) seat.coordinator().close();
      // Either one may have come to its end before.
      const Error error = seat.failed(request);
      CHECK(!error || error.kind == ErrorKind::aborted);
      self.meet();
    });
  }
}

TEST(a_stream_comes_after_a_request_that_has_failed) {
  run({.size = 2, .leaves = 0}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    values.fill(1);
    seat.wait(seat.all_reduce("before", values));
    const std::vector<float> sevens(values.count(), 7);
    TestStream stream(self);
    if (self.rank() == 1) stream.hold();
    const auto started = double_calls("cuLaunchKernel");
    const auto request = seat.all_reduce("tensor", values, stream.get());
    while (double_calls("cuLaunchKernel") == started) std::this_thread::yield();
    self.meet();
    if (self.rank() == 0) ::raise(SIGKILL);
    CHECK(seat.failed(request).kind == ErrorKind::peer_lost);
    double_hold_kernels();
    values.put_on(stream.get(), sevens);
    stream.release();
    while (double_kernels_held() == 0) std::this_thread::yield();
    double_release();
    finish(self, stream.get());
    seat.coordinator().close();
    CHECK(values.get() == sevens);
  });
}

TEST(a_request_is_over_when_a_kernel_that_runs_has_ended) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 500'000);
    seat.wait(seat.all_reduce("before", values));
    self.meet();
    if (self.rank() == 1) double_hold_kernels();
    const auto request = seat.all_reduce("tensor", values);
    while (self.rank() == 1 && double_kernels_held() == 0) std::this_thread::yield();
    self.meet();
    std::thread closing;
    if (self.rank() == 0) closing = std::thread([&] { seat.coordinator().close(); });
    if (self.rank() == 1) CHECK(seat.failed(request).kind == ErrorKind::aborted);
    self.meet();
    if (self.rank() == 0) CHECK(!self.engine().is_over(*request));
    self.meet();
    double_release();
    CHECK(seat.failed(request).kind == ErrorKind::aborted);
    if (closing.joinable()) closing.join();
    self.meet();
  });
}

// Another rank may come to a call later, and use the memory in which this one has packed tensors.
TEST(memory_of_a_coordinator_stays_where_ranks_do_not_leave_together) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    seat.wait(seat.all_reduce("before", values));
    const Bundled bundle(self, seat, 1, {10'000, 12'000});
    TestStream stream(self);
    if (self.rank() == 1) stream.hold();
    const auto taken = double_calls("cuMemAlloc");
    const auto requests = bundle.submit(Op::sum, SIZE_MAX, stream.get());
    while (double_calls("cuMemAlloc") == taken) std::this_thread::yield();
    self.meet();
    if (self.rank() == 0) {
      const auto given_back = double_calls("cuMemFree");
      seat.coordinator().close();
      CHECK(double_calls("cuMemFree") == given_back);
    }
    self.meet();
    for (const auto& request : requests) CHECK(seat.failed(request).kind == ErrorKind::aborted);
  });
}

TEST(arguments_that_no_rank_hears_of) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 5000);
    values.put(ramp_of(values.count(), self.rank()));
    const auto refused = [&](RequestArguments arguments, const char* words) {
      const Error error = failure_of([&] { seat.coordinator().submit(arguments); });
      CHECK(error.kind == ErrorKind::invalid && contains(error.message, words));
    };
    if (self.rank() == 1) {
      std::vector<float> here(10);
      RequestArguments arguments = seat.arguments("tensor", values, DType::float32);
      arguments.call.target = bytes(here);
      arguments.call.count = here.size();
      refused(arguments, "the buffer is no memory of device 0");
      arguments = seat.arguments("tensor", values, DType::float32);
      arguments.prescale = 2;
      refused(arguments, "is not scaled by a request");
      arguments = seat.arguments("tensor", values, DType::float32);
      std::vector<float> lost(values.count());
      arguments.call.codec = Codec::int8;
      arguments.call.residual = bytes(lost);
      refused(arguments, "the buffer is no memory of device 0");
      arguments = seat.arguments("tensor", values, DType::float32);
      arguments.call.collective = Collective::all_gather;
      refused(arguments, "somebody must allocate its output");
    }
    seat.wait(seat.all_reduce("tensor", values));
    CHECK(values.get() == sum_of_ramps(values.count(), 2));
  });
}

TEST(a_rank_that_has_joined_gives_zeros) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    std::vector<std::unique_ptr<DeviceValues<float>>> values;
    for (const std::size_t count : {5, 3000, 200'000, 40'000, 300'000})
      values.push_back(std::make_unique<DeviceValues<float>>(self, count));
    seat.wait(seat.all_reduce("before", *values[0]));
    if (self.rank() < 2) {
      std::vector<Coordinating::Request> requests;
      for (const auto& each : values) {
        each->put(ramp_of(each->count(), self.rank()));
        requests.push_back(seat.all_reduce("tensor" + std::to_string(each->count()), *each));
      }
      for (const auto& request : requests) seat.wait(request);
      for (const auto& each : values) CHECK(each->get() == sum_of_ramps(each->count(), 2));
    }
    seat.wait(seat.coordinator().join());
    values[0]->put(ramp_of(5, self.rank()));
    seat.wait(seat.all_reduce("after", *values[0]));
    CHECK(values[0]->get() == sum_of_ramps(5, 3));
  });
}

TEST(a_rank_that_has_joined_and_has_no_device) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 10);
    const auto request = self.rank() == 0 ? seat.all_reduce("tensor", values) : seat.coordinator().join();
    const Error error = seat.failed(request);
    CHECK(error.kind == ErrorKind::aborted);
    CHECK(contains(error.message, "rank 1 has joined before it had anything on a device"));
  });
}

TEST(a_policy_that_takes_batches_back) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self, "graph");
    const DeviceValues<float> values(self, 10);
    const Error error = failure_of([&] { seat.all_reduce("tensor", values); });
    CHECK(error.kind == ErrorKind::invalid && contains(error.message, "the policy graph may take back"));
  });
}
