// Ranks that measure their limits come to the same ones, and with any limits all collectives do what they say.
//
// On the stand-in times say nothing of a device, and so limits may come out any way.
#include "tests/device/processes.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Limits;
using device::Path;

namespace {

// Sizes around all limits that can be measured: elements.
std::vector<std::size_t> counts_around(const Limits& limits) {
  std::vector<std::size_t> counts = {1, 1000};
  for (const std::size_t bytes : {limits.host, limits.one_shot})
    for (const std::size_t count : {bytes / sizeof(float), bytes / sizeof(float) + 1})
      if (count > 0) counts.push_back(count);
  return counts;
}

Path expected(const Limits& limits, std::size_t bytes) {
  return bytes <= limits.host ? Path::host : bytes <= limits.one_shot ? Path::one_shot : Path::two_shot;
}

float value(std::size_t i, int rank) { return static_cast<float>(i % 7 + static_cast<std::size_t>(rank)); }

void sums(DeviceRank& self, const Limits& limits, std::size_t count, Kind kind) {
  const DeviceValues<float> values(self, count, kind);
  std::vector<float> mine(count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(i, self.rank());
  values.put(mine);
  all_reduce(self, values.call(DType::float32))->order_before(nullptr);
  finish(self);
  CHECK(self.on_device().last().path == expected(limits, count * sizeof(float)));
  const auto result = values.get();
  const int ranks = self.size();
  for (std::size_t i = 0; i < count; ++i)
    CHECK(result[i] == static_cast<float>(ranks) * value(i, 0) + static_cast<float>(ranks * (ranks - 1) / 2));
}

}  // namespace

TEST(ranks_that_measure_come_to_the_same) {
  for (const int ranks : {2, 4}) {
    run({.size = ranks, .limits = {}}, [](DeviceRank& self) {
      const Limits limits = self.on_device().limits();
      CHECK(limits.measured && limits.host <= limits.one_shot && limits.one_shot <= calibration::kDeviceOneShot);
      for (const Limits& other : device::exchanged(self.engine(), *self.group(), limits)) CHECK(other == limits);
      for (const std::size_t count : counts_around(limits)) sums(self, limits, count, Kind::device);
      CHECK(contains(self.on_device().last().why, "as timed when the group began"));
    });
  }
}

// Also where parts of a buffer are empty, for there are more ranks than 256 bytes in it.
TEST(sums_with_any_limits) {
  const std::size_t most = calibration::kDeviceOneShot;
  for (const Limits& limits : {Limits{0, 0}, Limits{0, most}, Limits{2048, 2048}, Limits{most, most}}) {
    for (const int ranks : {2, 5}) {
      run({.size = ranks, .limits = limits}, [&](DeviceRank& self) {
        CHECK(self.on_device().limits() == limits);
        for (const std::size_t count : counts_around(limits)) {
          sums(self, limits, count, Kind::device);
          sums(self, limits, count, self.rank() == 0 ? unmapped_kinds()[0] : Kind::device);
        }
      });
    }
  }
}

TEST(nothing_is_measured_without_another_rank_or_without_kernels) {
  for (const Job& job : {Job{.size = 1, .limits = {}}, Job{.size = 2, .kernels = false, .limits = {}}}) {
    run(job, [](DeviceRank& self) {
      CHECK(self.on_device().limits() == Limits{});
      const DeviceValues<float> values(self, 100);
      values.fill(1);
      all_reduce(self, values.call(DType::float32))->order_before(nullptr);
      finish(self);
      CHECK(values.get()[99] == static_cast<float>(self.size()));
    });
  }
}
