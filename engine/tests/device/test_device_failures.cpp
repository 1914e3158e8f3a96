// What goes wrong on one rank's device, or with a rank, is named on all ranks, and none waits in vain.
#include <csignal>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Path;
using device::Result;

namespace {

constexpr std::size_t kSmall = 10'000;   // elements, in one shot
constexpr std::size_t kLarge = 500'000;  // in two

void fail(const char* function, Result result = Result::out_of_memory, unsigned after = 0) {
  double_fail(function, static_cast<int>(result), after);
}

Error failed(DeviceRank& self, const device::Call& call) {
  return failure_of([&] { self.on_device().all_reduce(call); });
}

void finish(DeviceRank& self) { self.driver().check(self.driver().stream_synchronize(nullptr), "cuStreamSynchronize"); }

}  // namespace

// It is no reason to fail: the host path takes no memory of the device.
TEST(no_room_for_scratch_memory) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(kSmall);
    std::fill_n(values.data(), kSmall, 3.0F);
    if (self.rank() == 1) fail("cuMemAlloc");
    self.on_device().all_reduce(values.call(DType::float32))->order_before(nullptr);
    finish(self);
    CHECK(values.data()[kSmall - 1] == 6);
    const auto& last = self.on_device().last();
    CHECK(last.path == Path::staged);
    CHECK(contains(last.why, "rank 1: cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY"));
  });
}

TEST(every_function_that_may_fail_before_the_notices) {
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuPointerGetAttributes", "cuStreamWaitEvent"}) {
    run({.size = 2}, [function](DeviceRank& self) {
      self.on_device();
      const DeviceValues<float> values(kSmall);
      if (self.rank() == 1) fail(function);
      const Error error = failed(self, values.call(DType::float32));
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(contains(error.message, std::string("rank 1: ") + function + " failed with CUDA_ERROR_OUT_OF_MEMORY"));
      // The group goes on. What had begun uses the buffer no more, in the order of the stream.
      finish(self);
      std::fill_n(values.data(), kSmall, 3.0F);
      self.on_device().all_reduce(values.call(DType::float32))->order_before(nullptr);
      finish(self);
      CHECK(values.data()[0] == 6);
    });
  }
}

TEST(a_kernel_that_cannot_start) {
  for (const std::size_t count : {kSmall, kLarge}) {
    run({.size = 2}, [count](DeviceRank& self) {
      self.on_device();
      const DeviceValues<float> values(count);
      if (self.rank() == 1) fail("cuLaunchKernel");
      Error error = failed(self, values.call(DType::float32));
      // In one shot the other rank may be through, and hears of it in its next call.
      if (!error) error = failed(self, values.call(DType::float32));
      CHECK(error.kind == ErrorKind::aborted && contains(error.message, "cuLaunchKernel failed"));
      CHECK(contains(error.message, "rank 1"));
    });
  }
}

TEST(a_peers_memory_that_cannot_be_opened) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(kLarge);
    if (self.rank() == 0) fail("cuIpcOpenMemHandle", Result::invalid_handle);
    const Error error = failed(self, values.call(DType::float32));
    CHECK(contains(error.message, "rank 0: cuIpcOpenMemHandle failed with CUDA_ERROR_INVALID_HANDLE"));
    CHECK(contains(error.message, "perhaps with its process"));
  });
}

TEST(pinned_memory_that_cannot_be_had) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(10);
    if (self.rank() == 1) fail("cuMemHostRegister");
    const Error error = failed(self, values.call(DType::float32));
    CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 1"));
    CHECK(contains(error.message, "cuMemHostRegister failed with CUDA_ERROR_OUT_OF_MEMORY"));
  });
}

TEST(ranks_that_disagree) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(kLarge);
    device::Call call = values.call(DType::float32);
    if (self.rank() == 1) call.count = kSmall;
    const Error error = failed(self, call);
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "rank 0 calls all_reduce #") &&
          contains(error.message, "float32[500000] SUM on the device"));
    CHECK(contains(error.message, "rank 1 calls all_reduce #") && contains(error.message, "float32[10000] SUM"));
  });
}

TEST(memory_that_is_not_of_the_device) {
  run({.size = 2}, [](DeviceRank& self) {
    std::vector<float> here(kSmall);
    const DeviceValues<float> values(kSmall);
    device::Call call = values.call(DType::float32);
    if (self.rank() == 1) call.data = reinterpret_cast<device::Address>(here.data());
    CHECK(contains(failed(self, call).message, "rank 1: the buffer is no memory of device 0"));
    if (self.rank() == 1) call = values.call(DType::float32), call.count = kSmall + 5000;
    CHECK(failed(self, call).kind != ErrorKind::none);
  });
}

TEST(a_rank_that_is_killed_is_named) {
  for (const std::size_t count : {std::size_t{10}, kSmall, kLarge, std::size_t{5'000'000}}) {
    run({.size = 4, .leaves = 2}, [count](DeviceRank& self) {
      const DeviceValues<float> values(count);
      Error error = failed(self, values.call(DType::float32));
      if (self.rank() == 2) ::raise(SIGKILL);
      // Others may not be through the first one when rank 2 is.
      for (int again = 0; again < 3 && !error; ++again) error = failed(self, values.call(DType::float32));
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
    });
  }
}

// What it had shown cannot be opened any more. The memory is taken away by the survivors.
TEST(the_memory_of_a_killed_rank) {
  run({.size = 2, .leaves = 1}, [](DeviceRank& self) {
    const device::Current current(self.driver(), self.devices().get(0)->context());
    const DeviceValues<float> values(kLarge);
    device::PeerMemory memory(self.driver(), [] {});
    const auto mine = memory.show(self.devices().pointers().find(values.address()));
    const auto all = device::exchanged(self.engine(), *self.group(), mine);
    const auto meet = [&] { return failure_of([&] { barrier(self.engine(), *self.group(), Mode::blocking); }); };
    meet();  // then the other one has what was exchanged
    if (self.rank() == 1) ::raise(SIGKILL);
    CHECK(meet().kind == ErrorKind::peer_lost);
    try {
      memory.open(1, all[1]);
      CHECK(false);
    } catch (const device::DriverError& error) {
      CHECK(error.result == Result::invalid_handle && std::string(error.function) == "cuIpcOpenMemHandle");
    }
  });
}

TEST(memory_is_opened_once_and_again_after_it_was_freed) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const auto opened = [&](const DeviceValues<float>& values) {
      const auto before = double_calls("cuIpcOpenMemHandle");
      std::fill_n(values.data(), kLarge, 3.0F);
      self.on_device().all_reduce(values.call(DType::float32))->order_before(nullptr);
      finish(self);
      CHECK(values.data()[0] == 6 && values.data()[kLarge - 1] == 6);
      return double_calls("cuIpcOpenMemHandle") - before;
    };
    const DeviceValues<float> first(kLarge);
    CHECK(opened(first) == 1 && opened(first) == 0 && opened(first) == 0);
    barrier(self.engine(), *self.group(), Mode::blocking);
    self.driver().free(first.address());
    const DeviceValues<float> second(kLarge);
    if (second.address() == first.address())
      CHECK(opened(second) == 1);
    else
      opened(second);
    CHECK(opened(second) == 0);
  });
}

// Its stream waits for something that never ends.
TEST(a_device_that_does_not_come_to_an_end) {
  run({.size = 2, .timeout = 1}, [](DeviceRank& self) {
    self.on_device();
    device::StreamHandle stream = nullptr;
    self.driver().check(self.driver().stream_create(&stream, 0), "cuStreamCreate");
    const DeviceValues<float> values(10);
    double_hold(stream);
    const Error error = failed(self, values.call(DType::float32, Op::sum, stream));
    CHECK(error.kind == ErrorKind::timeout && contains(error.message, "the device has not finished the work before"));
    double_release();
    self.driver().stream_destroy(stream);
  });
}
