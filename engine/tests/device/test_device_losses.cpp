// A rank that is lost, that disagrees, that gives up or that takes too long is named on all ranks, and neither they nor
// their streams wait for ever.
#include <csignal>

#include "tests/device/failed.hpp"

using namespace paceline;
using namespace paceline::test;

TEST(ranks_that_disagree) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, kLarge);
    Reduction call = values.call(DType::float32);
    if (self.rank() == 1) call.count = kSmall;
    const Error error = failed(self, call);
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "rank 0 calls all_reduce #") &&
          contains(error.message, "float32[500000] SUM on the device"));
    CHECK(contains(error.message, "rank 1 calls all_reduce #") && contains(error.message, "float32[10000] SUM"));
    finish(self);
  });
}

TEST(a_rank_that_is_killed_is_named) {
  for (const std::size_t count : {std::size_t{10}, kSmall, kLarge, std::size_t{5'000'000}}) {
    run({.size = 4, .leaves = 2}, [count](DeviceRank& self) {
      const DeviceValues<float> values(self, count);
      Error error = failed(self, values.call(DType::float32));
      if (self.rank() == 2) ::raise(SIGKILL);
      // Others may not be through the first one when rank 2 is.
      for (int again = 0; again < 3 && !error; ++again) error = failed(self, values.call(DType::float32));
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
      finish(self);
    });
  }
}

// The others have handed work to their streams, which must go on.
TEST(a_rank_that_is_killed_before_it_calls) {
  for (const std::size_t count : {std::size_t{10}, kSmall, kLarge}) {
    run({.size = 3, .leaves = 2}, [count](DeviceRank& self) {
      const DeviceValues<float> values(self, count);
      self.on_device();
      self.meet();
      if (self.rank() == 2) ::raise(SIGKILL);
      std::shared_ptr<device::Pending> pending;
      Error error = failure_of([&] {
        pending = all_reduce(self, values.call(DType::float32));
        pending->order_before(nullptr);
      });
      finish(self);
      if (!error) error = failure_of([&] { pending->order_before(nullptr); });
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
      CHECK(failed(self, values.call(DType::float32)).kind == ErrorKind::peer_lost);
    });
  }
}

TEST(a_rank_that_is_lost_while_its_device_works) {
  for (const std::size_t count : {std::size_t{10}, kSmall, kLarge}) {
    run({.size = 2, .leaves = 1}, [count](DeviceRank& self) {
      TestStream stream(self);
      const DeviceValues<float> values(self, count);
      self.on_device();
      if (self.rank() == 1) stream.hold();
      const auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
      self.meet();
      if (self.rank() == 1) ::raise(SIGKILL);
      const Error error = failure_of([&] { pending->wait(std::chrono::seconds(30)); });
      // Its memory may be gone before this rank has opened it.
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 1"));
    });
  }
}

TEST(an_abort_lets_the_streams_go_on) {
  run({.size = 2}, [](DeviceRank& self) {
    self.on_device();
    const DeviceValues<float> values(self, kLarge);
    TestStream stream(self);
    if (self.rank() == 1) stream.hold();
    const auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
    if (self.rank() == 0) {
      pending->order_before(nullptr);
      self.meet();
      self.engine().abort(*self.group(), "enough");
      finish(self);
      CHECK(failure_of([&] { pending->order_before(nullptr); }).kind == ErrorKind::aborted);
    } else {
      self.meet();
      const Error error = failure_of([&] { pending->wait(std::chrono::seconds(30)); });
      CHECK(error.kind == ErrorKind::aborted && contains(error.message, "enough"));
    }
  });
}

// Its stream waits for something that does not end in time.
TEST(a_device_that_does_not_come_to_an_end) {
  for (const std::size_t count : {std::size_t{10}, kSmall}) {
    run({.size = 2}, [count](DeviceRank& self) {
      self.on_device();
      self.meet();
      self.engine().set_timeout(*self.group(), std::chrono::seconds(1));
      const DeviceValues<float> values(self, count);
      TestStream stream(self);
      stream.hold();
      const Error error = failed(self, values.call(DType::float32, Op::sum, stream.get()));
      CHECK(error.kind == ErrorKind::timeout);
      if (count < kSmall) CHECK(contains(error.message, "the device has not finished the work before all_reduce #"));
    });
  }
}
