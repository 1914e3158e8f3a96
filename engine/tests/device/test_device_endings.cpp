// Calls that have failed on one rank: others do not reach its memory any more, nor does its own device after it has
// heard of that. The stand-in holds streams and kernels in the middle of their work.
#include "tests/device/double/wishes.hpp"
#include "tests/device/failed.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

std::size_t others_than(float value, const std::vector<float>& values) {
  return static_cast<std::size_t>(std::ranges::count_if(values, [&](float one) { return one != value; }));
}

}  // namespace

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
