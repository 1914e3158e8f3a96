// All-reduces of device memory between processes that share one device, on every path.
#include <cmath>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Path;

namespace {

// Rank r has (i % 10) + r at i, so that all sums are exact.
template <typename T>
std::vector<T> values_of(std::size_t count, int rank) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % 10 + static_cast<std::size_t>(rank));
  return values;
}

template <typename T>
std::vector<T> sum_of(std::size_t count, int ranks) {
  std::vector<T> sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i)
      sum[i] = static_cast<T>(sum[i] + static_cast<T>(i % 10 + static_cast<std::size_t>(rank)));
  return sum;
}

template <typename T>
Path reduced(DeviceRank& self, const DeviceValues<T>& values, DType dtype, Op op = Op::sum) {
  all_reduce(self, values.call(dtype, op))->order_before(nullptr);
  finish(self);
  return self.on_device().last().path;
}

template <typename T>
bool summed(DeviceRank& self, const DeviceValues<T>& values) {
  return values.get() == sum_of<T>(values.count(), self.size());
}

struct Size {
  std::size_t bytes;
  Path path;
};
const std::array kSizes = {Size{4, Path::host},
                           Size{calibration::kReducedOnHost, Path::host},
                           Size{calibration::kReducedOnHost + 4, Path::one_shot},
                           Size{calibration::kDeviceOneShot, Path::one_shot},
                           Size{calibration::kDeviceOneShot + 4, Path::two_shot},
                           Size{(std::size_t{3} << 20) + 4, Path::two_shot}};

void every_size(int ranks) {
  run({.size = ranks}, [](DeviceRank& self) {
    for (const Size& size : kSizes) {
      const DeviceValues<float> values(self, size.bytes / sizeof(float));
      for (int again = 0; again < 3; ++again) {
        values.put(values_of<float>(values.count(), self.rank()));
        CHECK(reduced(self, values, DType::float32) == size.path);
        CHECK(summed(self, values));
      }
    }
    const auto opened = self.on_device().opened();
    CHECK(opened == static_cast<std::size_t>(self.size() - 1) * 3);  // scratch memory, and two buffers
  });
}

template <typename T>
void reduce_as(DeviceRank& self, std::size_t count, DType dtype, Op op,
               const std::function<double(double, double)>& f) {
  const DeviceValues<T> values(self, count);
  const auto value = [](std::size_t i, int rank) {
    return static_cast<double>(1 + (i + static_cast<std::size_t>(rank)) % 3);
  };
  std::vector<T> mine(count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<T>(value(i, self.rank()));
  values.put(mine);
  reduced(self, values, dtype, op);
  const auto result = values.get();
  for (std::size_t i = 0; i < count; ++i) {
    double expected = value(i, 0);
    for (int rank = 1; rank < self.size(); ++rank) expected = f(expected, value(i, rank));
    if (op == Op::avg) expected /= self.size();
    CHECK(static_cast<double>(result[i]) == (std::is_integral_v<T> ? std::trunc(expected) : expected));
  }
}

}  // namespace

TEST(two_ranks_on_every_path) { every_size(2); }
TEST(four_ranks_on_every_path) { every_size(4); }

TEST(dtypes_and_reductions) {
  run({.size = 2}, [](DeviceRank& self) {
    const auto plus = [](double a, double b) { return a + b; };
    const auto times = [](double a, double b) { return a * b; };
    const auto least = [](double a, double b) { return std::min(a, b); };
    for (const std::size_t count : {std::size_t{5000}, std::size_t{300'001}}) {
      reduce_as<double>(self, count, DType::float64, Op::sum, plus);
      reduce_as<double>(self, count, DType::float64, Op::avg, plus);
      reduce_as<float>(self, count, DType::float32, Op::product, times);
      reduce_as<std::int32_t>(self, count, DType::int32, Op::avg, plus);
      reduce_as<std::int64_t>(self, count, DType::int64, Op::min, least);
      reduce_as<std::uint8_t>(self, count, DType::uint8, Op::sum, plus);
    }
  });
}

TEST(each_rank_has_its_factor) {
  run({.size = 2}, [](DeviceRank& self) {
    for (const std::size_t count : {std::size_t{100}, std::size_t{50'000}, std::size_t{500'000}}) {
      for (const Kind kind : {Kind::device, Kind::pool}) {
        const DeviceValues<float> values(self, count, kind);
        values.put(values_of<float>(count, self.rank()));
        auto call = values.call(DType::float32, Op::premul_sum);
        call.factor = self.rank() + 2;
        all_reduce(self, call)->order_before(nullptr);
        finish(self);
        const auto result = values.get();
        const auto first = values_of<float>(count, 0);
        const auto second = values_of<float>(count, 1);
        for (std::size_t i = 0; i < count; ++i) CHECK(result[i] == 2 * first[i] + 3 * second[i]);
      }
    }
  });
}

TEST(parts_of_a_buffer_and_odd_addresses) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, 400'000);
    const std::size_t first = self.rank() == 0 ? 1 : 1000;
    values.fill(7);
    const std::size_t count = 200'001;
    const Reduction call{.data = values.address() + first * sizeof(float), .count = count, .dtype = DType::float32};
    all_reduce(self, call)->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::two_shot);
    const auto result = values.get();
    for (std::size_t i = 0; i < values.count(); ++i) CHECK(result[i] == (i >= first && i < first + count ? 14 : 7));
  });
}

// It is copied to memory that they can map, and back.
TEST(memory_that_other_processes_cannot_map) {
  for (const Kind kind : unmapped_kinds()) {
    run({.size = 2}, [kind](DeviceRank& self) {
      const Kind here = self.rank() == 1 ? kind : Kind::device;
      for (const std::size_t count : {std::size_t{10'000}, std::size_t{500'000}, std::size_t{700'000}}) {
        const DeviceValues<float> values(self, count, here);
        values.put(values_of<float>(count, self.rank()));
        const Path path = count == 10'000 ? Path::one_shot : Path::two_shot;
        CHECK(reduced(self, values, DType::float32) == path && summed(self, values));
      }
    });
  }
}

TEST(without_kernels_everything_goes_through_the_host) {
  run({.size = 2, .kernels = false}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, 5'000'000);
    values.put(values_of<float>(values.count(), self.rank()));
    CHECK(reduced(self, values, DType::float32) == Path::staged && summed(self, values));
    CHECK(contains(self.on_device().last().why, "rank 0: this build of Paceline has no kernels"));
  });
}

// The caller gets on while the device still works, and what it hands to its stream afterwards sees the result.
TEST(the_host_does_not_wait_for_the_device) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{50'000}, std::size_t{500'000}}) {
    run({.size = 2}, [count](DeviceRank& self) {
      const DeviceValues<float> source(self, count);
      const DeviceValues<float> values(self, count);
      const DeviceValues<float> result(self, count);
      TestStream stream(self);
      source.put(values_of<float>(count, self.rank()));
      self.on_device();
      stream.hold();
      self.driver().copy(values.address(), source.address(), count * sizeof(float), stream.get());
      const auto pending = all_reduce(self, values.call(DType::float32, Op::sum, stream.get()));
      CHECK(!pending->done());
      pending->order_before(stream.get());
      self.driver().copy(result.address(), values.address(), count * sizeof(float), stream.get());
      stream.release();
      finish(self, stream.get());
      CHECK(summed(self, result));
      pending->wait(std::chrono::seconds(30));
    });
  }
}

// A rank gets on although the last one calls later.
TEST(a_call_does_not_wait_for_other_ranks) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{50'000}, std::size_t{500'000}}) {
    const Told told;
    run({.size = 3}, [&](DeviceRank& self) {
      const DeviceValues<float> values(self, count);
      values.put(values_of<float>(count, self.rank()));
      self.on_device();
      if (self.rank() == 2) told.await(2);
      const auto pending = all_reduce(self, values.call(DType::float32));
      pending->order_before(nullptr);
      if (self.rank() != 2) {
        CHECK(!pending->done());
        told.tell();
      }
      finish(self);
      CHECK(summed(self, values));
      pending->wait(std::chrono::seconds(30));
    });
  }
}

// Words of pinned memory and scratch memory serve again and again, and nothing is waited for in between.
TEST(more_calls_than_can_be_under_way) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<std::int64_t> small(self, 3);
    const DeviceValues<std::int64_t> middle(self, 2000);
    const DeviceValues<std::int64_t> large(self, 100'000);
    for (const auto* values : {&small, &middle, &large})
      values->put(values_of<std::int64_t>(values->count(), self.rank()));
    for (unsigned again = 0; again < 2 * device::kCalls; ++again) {
      const Op op = again == 0 ? Op::sum : Op::max;
      for (const auto* values : {&small, &middle, &large})
        if (values != &large || again % 16 == 0) all_reduce(self, values->call(DType::int64, op));
    }
    all_reduce(self, small.call(DType::int64, Op::max))->order_before(nullptr);
    finish(self);
    CHECK(summed(self, small) && summed(self, middle) && summed(self, large));
  });
}

TEST(many_in_a_row_on_one_stream) {
  run({.size = 4}, [](DeviceRank& self) {
    const DeviceValues<float> values(self, 4000);
    values.put(values_of<float>(values.count(), self.rank()));
    constexpr int kTimes = 10;
    for (int again = 0; again < kTimes; ++again)
      all_reduce(self, values.call(DType::float32, again == 0 ? Op::sum : Op::avg))->order_before(nullptr);
    finish(self);
    CHECK(summed(self, values));
  });
}
