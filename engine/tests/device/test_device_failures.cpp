// Functions of the driver that fail: the stand-in lets them. All ranks hear of it, and no stream waits in vain.
#include <csignal>

#include "calibration/device.hpp"
#include "tests/device/double/wishes.hpp"
#include "tests/device/failed.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Path;
using device::Result;

namespace {

void fail(const char* function, Result result = Result::out_of_memory, unsigned after = 0) {
  double_fail(function, static_cast<int>(result), after);
}

}  // namespace

// It is no reason to fail: the host path takes no memory of the device.
TEST(no_room_for_scratch_memory) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, kSmall);
    values.fill(3);
    if (self.rank() == 1) fail("cuMemAlloc");
    all_reduce(self, values.call(DType::float32))->order_before(nullptr);
    finish(self);
    CHECK(values.get()[kSmall - 1] == 6);
    const auto& last = self.on_device().last();
    CHECK(last.path == Path::staged);
    CHECK(contains(last.why, "rank 1: cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY"));
  });
}

TEST(every_function_of_a_call) {
  for (const char* function : {"cuPointerGetAttributes", "cuStreamIsCapturing", "cuEventCreate", "cuEventRecord",
                               "cuStreamWaitEvent", "cuStreamBatchMemOp", "cuMemcpyDtoDAsync", "cuLaunchKernel"}) {
    for (const std::size_t count : {kSmall, kLarge}) {
      if (count == kLarge && std::string(function) == "cuMemcpyDtoDAsync") continue;  // it is not needed
      run({.size = 2}, [function, count](DeviceRank& self) {
        self.on_device();
        self.meet();
        const DeviceValues<float> values(self, count);
        if (self.rank() == 1) fail(function);
        Error error = failed(self, values.call(DType::float32));
        // In one shot rank 1 has given its values before its kernel fails, and rank 0 may be through with its own.
        if (!error && self.rank() == 0 && count == kSmall && std::string(function) == "cuLaunchKernel")
          error = failed(self, values.call(DType::float32));
        CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 1"));
        CHECK(contains(error.message, std::string(function) + " failed with CUDA_ERROR_OUT_OF_MEMORY"));
        // What had begun uses the buffer no more, in the order of the stream, and the group says what has happened.
        finish(self);
        CHECK(contains(failed(self, values.call(DType::float32)).message, function));
      });
    }
  }
}

TEST(a_function_that_fails_while_ranks_measure) {
  for (const char* function : {"cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemsetD8Async"}) {
    run({.size = 2, .limits = {}}, [function](DeviceRank& self) {
      const int before = double_held();
      if (self.rank() == 1) fail(function, Result::out_of_memory, std::string(function) == "cuMemsetD8Async" ? 0 : 3);
      const Error error = failure_of([&] { self.on_device(); });
      CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 1"));
      CHECK(contains(error.message, std::string(function) + " failed with CUDA_ERROR_OUT_OF_MEMORY"));
      CHECK(double_held() <= before + 1);  // scratch memory stays where another rank leaves late
    });
  }
}

TEST(a_rank_that_is_killed_while_ranks_measure) {
  run({.size = 3, .leaves = 2, .limits = {}}, [](DeviceRank& self) {
    if (self.rank() == 2)
      std::thread([] {
        while (double_calls("cuLaunchKernel") < 3) std::this_thread::yield();
        ::raise(SIGKILL);
      }).detach();
    const Error error = failure_of([&] { self.on_device(); });
    CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
  });
}

TEST(a_peers_memory_that_cannot_be_opened) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    self.meet();
    const DeviceValues<float> values(self, kLarge);
    if (self.rank() == 0) fail("cuIpcOpenMemHandle", Result::invalid_handle);
    const Error error = failed(self, values.call(DType::float32));
    CHECK(error.kind == ErrorKind::aborted && contains(error.message, "rank 0: all_reduce #"));
    CHECK(contains(error.message, "cuIpcOpenMemHandle failed with CUDA_ERROR_INVALID_HANDLE"));
    CHECK(contains(error.message, "perhaps with its process"));
    finish(self);
  });
}

// The engine hears a moment later that the rank has died, and says that instead.
TEST(a_dead_peers_memory_that_cannot_be_opened) {
  run({.size = 2, .leaves = 1}, [](DeviceRank& self) {
    self.on_device();
    self.meet();
    const DeviceValues<float> values(self, kLarge);
    const auto opened = double_calls("cuIpcOpenMemHandle");
    if (self.rank() == 0) fail("cuIpcOpenMemHandle", Result::invalid_handle);
    const auto pending = all_reduce(self, values.call(DType::float32));
    while (self.rank() == 0 && double_calls("cuIpcOpenMemHandle") == opened) std::this_thread::yield();
    self.meet();
    if (self.rank() == 1) ::raise(SIGKILL);
    const Error error = failure_of([&] { pending->wait(std::chrono::seconds(30)); });
    CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 1"));
    finish(self);
  });
}

TEST(pinned_memory_that_cannot_be_had) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, 10);
    if (self.rank() == 1) fail("cuMemHostRegister");
    const Error error = failed(self, values.call(DType::float32));
    CHECK(error.kind == ErrorKind::aborted);
    CHECK(contains(error.message, "rank 1 cannot work on its device: cuMemHostRegister failed with"));
    CHECK(!failed(self, values.call(DType::float32)));  // all ranks begin anew
  });
}

// They are the mistakes of one rank, and no other hears of them.
TEST(arguments_that_will_not_do) {
  run({.size = 2}, [](DeviceRank& self) {
    std::vector<float> here(kSmall);
    const DeviceValues<float> values(self, kSmall);
    values.fill(3);
    self.on_device();
    const auto refused = [&](const Reduction& call, const char* words) {
      const Error error = failed(self, call);
      CHECK(error.kind == ErrorKind::invalid && contains(error.message, words));
    };
    if (self.rank() == 1) {
      Reduction call = values.call(DType::float32);
      call.data = reinterpret_cast<device::Address>(here.data());
      refused(call, "the buffer is no memory of device 0");
      call = values.call(DType::float32);
      call.count = kSmall + 5000;
      refused(call, "ends outside of its memory");
      TestStream stream(self);
      double_capture(stream.get());
      refused(values.call(DType::float32, Op::sum, stream.get()), "records a CUDA graph");
    }
    CHECK(!failed(self, values.call(DType::float32)));
    CHECK(values.get()[0] == 6);
  });
}

// What it had shown cannot be opened any more. The memory is taken away by the survivors.
TEST(the_memory_of_a_killed_rank) {
  run({.size = 2, .leaves = 1}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, kLarge);
    device::ShownMemory own(self.driver());
    device::PeerMemory memory(self.driver());
    const auto mine = own.show(self.devices().pointers().find(values.address()));
    const auto all = device::exchanged(self.engine(), *self.group(), mine);
    self.meet();
    if (self.rank() == 1) ::raise(SIGKILL);
    const Error lost = failure_of([&] { barrier(self.engine(), *self.group(), Mode::blocking); });
    CHECK(lost.kind == ErrorKind::peer_lost);
    try {
      memory.open(1, all[1], 1);
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
      values.fill(3);
      all_reduce(self, values.call(DType::float32))->order_before(nullptr);
      finish(self);
      const auto result = values.get();
      CHECK(result[0] == 6 && result[kLarge - 1] == 6);
      return double_calls("cuIpcOpenMemHandle") - before;
    };
    const DeviceValues<float> first(self, kLarge);
    CHECK(opened(first) == 1 && opened(first) == 0 && opened(first) == 0);
    barrier(self.engine(), *self.group(), Mode::blocking);
    self.driver().free(first.address());
    const DeviceValues<float> second(self, kLarge);
    if (second.address() == first.address())
      CHECK(opened(second) == 1);
    else
      opened(second);
    CHECK(opened(second) == 0);
    // What has given way is closed once its last call is over.
    CHECK(double_calls("cuIpcCloseMemHandle") == (second.address() == first.address() ? 1 : 0));
  });
}

TEST(what_was_taken_is_given_back) {
  run({.size = 2}, [](DeviceRank& self) {
    for (const auto kind : {device::Kind::device, device::Kind::pool}) {
      const DeviceValues<float> values(self, kLarge, kind);
      const int before = double_held();
      values.fill(1);
      all_reduce(self, values.call(DType::float32))->order_before(nullptr);
      finish(self);
      self.leave();
      CHECK(double_held() == before);
    }
  });
}
