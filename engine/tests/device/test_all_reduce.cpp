// All-reduces of device memory between processes that share one device, on every path.
#include <cmath>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Path;

namespace {

// Rank r has (i % 1000) + r at i, so that all sums are exact.
template <typename T>
T value(std::size_t index, int rank) {
  return static_cast<T>(index % 10 + static_cast<std::size_t>(rank));
}

template <typename T>
void fill(const DeviceValues<T>& values, int rank) {
  for (std::size_t i = 0; i < values.count(); ++i) values.data()[i] = value<T>(i, rank);
}

template <typename T>
bool summed(const DeviceValues<T>& values, int size) {
  for (std::size_t i = 0; i < values.count(); ++i) {
    T expected = 0;
    for (int rank = 0; rank < size; ++rank) expected = static_cast<T>(expected + value<T>(i, rank));
    if (values.data()[i] != expected) return false;
  }
  return true;
}

// The stream's work is over.
void finish(DeviceRank& self, device::StreamHandle stream = nullptr) {
  self.driver().check(self.driver().stream_synchronize(stream), "cuStreamSynchronize");
}

template <typename T>
Path all_reduce(DeviceRank& self, const DeviceValues<T>& values, DType dtype, Op op = Op::sum) {
  self.on_device().all_reduce(values.call(dtype, op))->order_before(nullptr);
  finish(self);
  return self.on_device().last().path;
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
      const DeviceValues<float> values(size.bytes / sizeof(float));
      for (int again = 0; again < 3; ++again) {
        fill(values, self.rank());
        CHECK(all_reduce(self, values, DType::float32) == size.path);
        CHECK(summed(values, self.size()));
      }
    }
    const auto opened = self.on_device().opened();
    CHECK(opened == static_cast<std::size_t>(self.size() - 1) * 3);  // scratch memory, and two buffers
  });
}

template <typename T>
void reduce_as(DeviceRank& self, std::size_t count, DType dtype, Op op,
               const std::function<double(double, double)>& f) {
  const DeviceValues<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values.data()[i] = static_cast<T>(1 + (i + static_cast<std::size_t>(self.rank())) % 3);
  all_reduce(self, values, dtype, op);
  for (std::size_t i = 0; i < count; ++i) {
    double expected = static_cast<double>(1 + i % 3);
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(self.size()); ++rank)
      expected = f(expected, static_cast<double>(1 + (i + rank) % 3));
    if (op == Op::avg) expected /= self.size();
    CHECK(static_cast<double>(values.data()[i]) == (std::is_integral_v<T> ? std::trunc(expected) : expected));
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
        const DeviceValues<float> values(count, kind);
        fill(values, self.rank());
        auto call = values.call(DType::float32, Op::premul_sum);
        call.factor = self.rank() + 2;
        self.on_device().all_reduce(call)->order_before(nullptr);
        finish(self);
        for (std::size_t i = 0; i < count; ++i)
          CHECK(values.data()[i] == 2 * value<float>(i, 0) + 3 * value<float>(i, 1));
      }
    }
  });
}

TEST(parts_of_a_buffer_and_odd_addresses) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(400'000);
    const std::size_t first = self.rank() == 0 ? 1 : 1000;
    for (std::size_t i = 0; i < values.count(); ++i) values.data()[i] = 7;
    const std::size_t count = 200'001;
    const device::Call call{.data = values.address() + first * sizeof(float), .count = count, .dtype = DType::float32};
    self.on_device().all_reduce(call)->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::two_shot);
    for (std::size_t i = 0; i < values.count(); ++i)
      CHECK(values.data()[i] == (i >= first && i < first + count ? 14 : 7));
  });
}

// Large buffers go through the host; a small one is copied to memory that other processes can map.
TEST(memory_without_a_handle) {
  for (const Kind kind : {Kind::pool, Kind::mapped, Kind::managed}) {
    run({.size = 2}, [kind](DeviceRank& self) {
      const Kind here = self.rank() == 1 ? kind : Kind::device;
      const DeviceValues<float> small(10'000, here);
      fill(small, self.rank());
      CHECK(all_reduce(self, small, DType::float32) == Path::one_shot && summed(small, 2));
      const DeviceValues<float> large(5'000'000, here);
      fill(large, self.rank());
      CHECK(all_reduce(self, large, DType::float32) == Path::staged && summed(large, 2));
      CHECK(contains(self.on_device().last().why, "rank 1 has its buffer in memory that other processes cannot map"));
    });
  }
}

TEST(without_kernels_everything_goes_through_the_host) {
  run({.size = 2, .kernels = false}, [](DeviceRank& self) {
    const DeviceValues<float> values(5'000'000);
    fill(values, self.rank());
    CHECK(all_reduce(self, values, DType::float32) == Path::staged && summed(values, 2));
    CHECK(contains(self.on_device().last().why, "rank 0: this build of Paceline has no kernels"));
  });
}

// The caller gets on while the device still works, and what it hands to its stream afterwards sees the result.
TEST(the_host_does_not_wait_for_the_device) {
  for (const std::size_t count : {std::size_t{50'000}, std::size_t{500'000}}) {
    run({.size = 2}, [count](DeviceRank& self) {
      const DeviceValues<float> source(count);
      const DeviceValues<float> values(count);
      const DeviceValues<float> result(count);
      device::StreamHandle stream = nullptr;
      self.driver().check(self.driver().stream_create(&stream, 0), "cuStreamCreate");
      fill(source, self.rank());
      self.on_device();
      double_hold(stream);
      self.driver().copy(values.address(), source.address(), count * sizeof(float), stream);
      const auto pending = self.on_device().all_reduce(values.call(DType::float32, Op::sum, stream));
      CHECK(!pending->done());
      pending->order_before(stream);
      self.driver().copy(result.address(), values.address(), count * sizeof(float), stream);
      double_release();
      finish(self, stream);
      CHECK(pending->done() && summed(result, 2));
      self.driver().stream_destroy(stream);
    });
  }
}

// Nothing is waited for in between, and scratch memory is used again and again.
TEST(many_in_a_row_on_one_stream) {
  run({.size = 4}, [](DeviceRank& self) {
    const DeviceValues<float> values(4000);
    fill(values, self.rank());
    constexpr int kTimes = 10;
    for (int again = 0; again < kTimes; ++again)
      self.on_device().all_reduce(values.call(DType::float32, again == 0 ? Op::sum : Op::avg))->order_before(nullptr);
    finish(self);
    CHECK(summed(values, 4));
  });
}

TEST(what_was_taken_is_given_back) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> values(500'000);
    const int before = double_held();
    fill(values, self.rank());
    all_reduce(self, values, DType::float32);
    self.leave();
    CHECK(double_held() == before);
  });
}
