// Calls that have failed on one rank: others do not reach its memory any more, nor does its own device after it has
// heard of that. The stand-in holds streams and kernels in the middle of their work.
#include <csignal>
#include <cstring>

#include "tests/device/double/wishes.hpp"
#include "tests/device/failed.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Path;

namespace {

using Pending = std::shared_ptr<device::Pending>;

// Returns once this rank's kernels would find the memory of the others, which it has not opened before.
Pending prepared(DeviceRank& self, const Reduction& call) {
  const auto opened = double_calls("cuIpcOpenMemHandle");
  auto pending = all_reduce(self, call);
  while (double_calls("cuIpcOpenMemHandle") == opened) std::this_thread::yield();
  return pending;
}

Error failure(const Pending& pending) {
  return failure_of([&] { pending->wait(std::chrono::seconds(30)); });
}

std::size_t others_than(float value, const std::vector<float>& values) {
  return static_cast<std::size_t>(std::ranges::count_if(values, [&](float one) { return one != value; }));
}

}  // namespace

TEST(a_late_stream_leaves_the_memory_of_a_rank_that_gave_up) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kLarge);
    values.fill(1);
    TestStream stream(self);
    if (self.rank() == 1) stream.hold();
    const auto pending = prepared(self, values.call(DType::float32, Op::sum, stream.get()));
    CHECK(self.on_device().last().path == Path::two_shot);
    self.meet();
    if (self.rank() == 0) {
      CHECK(failure_of([&] { pending->wait(std::chrono::seconds(0)); }).kind == ErrorKind::timeout);
      finish(self, stream.get());
      values.fill(7);
    }
    self.meet();
    if (self.rank() == 1) {
      CHECK(failure(pending).kind == ErrorKind::timeout);
      stream.release();
      finish(self, stream.get());  // it comes after the group's
    }
    self.meet();
    if (self.rank() == 0) CHECK(others_than(7, values.get()) == 0);
    self.meet();
  });
}

TEST(memory_comes_back_when_a_kernel_that_runs_has_ended) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kLarge);
    values.fill(1);
    const std::vector<float> sevens(kLarge, 7);
    TestStream stream(self);
    self.meet();
    if (self.rank() == 1) double_hold_kernels();
    const auto pending = prepared(self, values.call(DType::float32, Op::sum, stream.get()));
    while (self.rank() == 1 && double_kernels_held() == 0) std::this_thread::yield();
    self.meet();
    if (self.rank() == 0) {
      self.engine().abort(*self.group(), "enough");
      CHECK(!pending->done());
      pending->order_before(stream.get());
      values.put_on(stream.get(), sevens);
    }
    self.meet();
    if (self.rank() == 1) {
      CHECK(failure(pending).kind == ErrorKind::aborted);
      double_release();
      finish(self, stream.get());
    }
    CHECK(contains(failure(pending).message, "enough"));
    if (self.rank() == 0) {
      finish(self, stream.get());
      self.meet();
      CHECK(others_than(7, values.get()) == 0);
    } else {
      self.meet();
    }
    self.meet();
  });
}

TEST(a_kernel_ends_with_its_process) {
  run({.size = 2, .leaves = 1}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kLarge);
    self.meet();
    if (self.rank() == 1) double_hold_kernels();
    const auto pending = prepared(self, values.call(DType::float32));
    while (self.rank() == 1 && double_kernels_held() == 0) std::this_thread::yield();
    self.meet();
    if (self.rank() == 0) {
      self.engine().abort(*self.group(), "enough");
      CHECK(!pending->done());
    }
    self.meet();
    if (self.rank() == 1) ::raise(SIGKILL);
    CHECK(contains(failure(pending).message, "enough"));
    finish(self);
  });
}

// Its stream has gone on without its part of the work, and the others' hosts look before they hear why.
TEST(a_call_that_one_rank_gave_up_ends_well_on_no_other) {
  for (const std::size_t count : {kSmall, kLarge}) {
    run({.size = 2}, [count](DeviceRank& self) {
      self.on_device();
      const DeviceValues<float> values(self, count);
      TestStream stream(self);
      TestStream after(self);
      if (self.rank() == 0) stream.hold();
      const Reduction call = values.call(DType::float32, Op::sum, stream.get());
      const auto pending = count == kLarge ? prepared(self, call) : all_reduce(self, call);
      pending->order_before(after.get());
      self.meet();
      if (self.rank() == 0) {
        self.meet();
        self.engine().abort(*self.group(), "enough");
        stream.release();
        CHECK(contains(failure(pending).message, "enough"));
      } else {
        const auto lock = self.engine().host().enter();
        self.meet();
        finish(self, after.get());
        pending->operation()->step();
        CHECK(!pending->operation()->complete());
      }
      CHECK(contains(failure(pending).message, "enough"));
      self.meet();
    });
  }
}

// Whatever way it is raised. Otherwise the device would still write to the memory when that serves something else.
TEST(a_stream_comes_after_a_call_that_has_failed) {
  for (const int way : {0, 1, 2}) {
    run({.size = 2}, [way](DeviceRank& self) {
      self.on_device();
      const DeviceValues<float> values(self, kSmall);
      values.fill(1);
      const std::vector<float> sevens(kSmall, 7);
      TestStream stream(self);
      TestStream other(self);
      TestStream end(self);
      self.meet();
      if (self.rank() == 1) stream.hold();
      const auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
      if (self.rank() == 1) {
        pending->order_before(end.get());
        self.engine().abort(*self.group(), "enough");
        const Error error = failure_of([&] {
          if (way == 0) pending->order_before(other.get());
          if (way == 1) pending->wait(std::chrono::seconds(30));
          if (way == 2) pending->wait(std::chrono::seconds(30), other.get());
        });
        CHECK(contains(error.message, "enough"));
        TestStream& ordered = way == 1 ? stream : other;
        values.put_on(ordered.get(), sevens);
        stream.release();
        finish(self, end.get());
        finish(self, ordered.get());
        CHECK(others_than(7, values.get()) == 0);
      }
      self.meet();
    });
  }
}

// What other ranks' streams write later stays out of what the arena gives to others.
TEST(words_of_a_late_stream_land_in_no_other_memory) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kSmall);
    TestStream stream(self);
    self.meet();
    if (self.rank() == 1) stream.hold();
    auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
    std::vector<std::unique_ptr<ArenaMemory>> blocks;
    constexpr std::size_t kBlock = 65536;
    if (self.rank() == 0) {
      self.engine().abort(*self.group(), "enough");
      CHECK(failure(pending).kind == ErrorKind::aborted);
      pending.reset();
      self.leave();
      for (int i = 0; i < 400; ++i) {
        blocks.push_back(std::make_unique<ArenaMemory>(self.engine().host().arena(), kBlock));
        std::memset(blocks.back()->data(), 0x55, kBlock);
      }
    }
    self.meet();
    if (self.rank() == 1) {
      CHECK(failure(pending).kind == ErrorKind::aborted);
      stream.release();
      finish(self, stream.get());
    }
    self.meet();
    for (const auto& block : blocks)
      for (std::size_t at = 0; at < kBlock; ++at) CHECK(block->data()[at] == std::byte{0x55});
    self.meet();
  });
}

// Memory that others cannot map is copied to a window, which they use as late as any other.
TEST(a_window_stays_where_ranks_do_not_leave_together) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kLarge, device::Kind::managed);
    const DeviceValues<float> more(self, 2 * kLarge, device::Kind::managed);
    TestStream stream(self);
    self.meet();
    if (self.rank() == 1) stream.hold();
    const auto pending = prepared(self, values.call(DType::float32, Op::sum, stream.get()));
    self.meet();
    if (self.rank() == 0) self.engine().abort(*self.group(), "enough");
    CHECK(failure(pending).kind == ErrorKind::aborted);
    if (self.rank() == 0) {
      const auto freed = double_calls("cuMemFree");
      CHECK(contains(failed(self, more.call(DType::float32)).message, "enough"));
      self.leave();
      CHECK(double_calls("cuMemFree") == freed);
    }
    self.meet();
  });
}

// It does not leave the others with what its stream makes of the call.
TEST(a_rank_that_leaves_in_the_middle_of_a_call_says_so) {
  for (const std::size_t count : {std::size_t{10}, kSmall, kLarge}) {
    run({.size = 2}, [count](DeviceRank& self) {
      self.on_device();
      const DeviceValues<float> values(self, count);
      TestStream stream(self);
      if (self.rank() == 1) stream.hold();
      const auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
      if (self.rank() == 0) self.leave();
      const Error error = failure(pending);
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(contains(error.message, "rank 0 has left the device while a call was under way"));
      self.meet();
    });
  }
}
