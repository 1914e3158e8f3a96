// Ranks that have a device each: kernels work in the memory of all where the devices reach each other, and otherwise
// the data go through the host.
#include "calibration/device.hpp"
#include "tests/device/double/wishes.hpp"
#include "tests/device/processes.hpp"
#include "tests/machine_plans.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Path;

namespace {

constexpr std::array kEach = {std::size_t{10}, std::size_t{10'000}, std::size_t{500'000}};  // elements, a path each

void add_up(DeviceRank& self, std::size_t count, Path path) {
  const DeviceValues<float> values(self, count);
  values.fill(static_cast<float>(self.rank() + 1));
  all_reduce(self, values.call(DType::float32))->order_before(nullptr);
  finish(self);
  CHECK(self.on_device().last().path == path);
  const auto result = values.get();
  const auto sum = static_cast<float>(self.size() * (self.size() + 1) / 2);
  CHECK(std::ranges::all_of(result, [sum](float one) { return one == sum; }));
}

}  // namespace

TEST(devices_that_reach_each_other) {
  for (const bool shared : {false, true}) {
    run({.size = 4, .devices = shared ? std::vector{1, 1, 2, 2} : std::vector{1, 2, 3, 4}}, [shared](DeviceRank& self) {
      CHECK(self.on_device().share_device() == shared);
      constexpr std::array kPaths = {Path::host, Path::one_shot, Path::two_shot};
      for (std::size_t i = 0; i < kEach.size(); ++i) add_up(self, kEach[i], kPaths[i]);
    });
  }
}

// Also if only one rank sees that: all go the same way, and all know why.
TEST(devices_that_do_not_reach_each_other) {
  for (const int blind : {-1, 1}) {
    run({.size = 3, .devices = {1, 2, 3}}, [blind](DeviceRank& self) {
      if (blind < 0 || blind == self.rank()) double_reach(false);
      CHECK(!self.on_device().share_device());
      constexpr std::array kPaths = {Path::host, Path::staged, Path::staged};
      for (std::size_t i = 0; i < kEach.size(); ++i) add_up(self, kEach[i], kPaths[i]);
      const std::string why = self.on_device().last().why;
      CHECK(contains(why, blind < 0 ? "rank 0: the memory of rank 1 on" : "rank 1: the memory of rank 0 on"));
      CHECK(contains(why, "another device: cuIpcOpenMemHandle failed with CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"));
    });
  }
}

// What is not measured on one device is measured between several, too.
TEST(devices_that_reach_each_other_are_timed) {
  run({.size = 2, .limits = {}, .devices = {1, 2}}, [](DeviceRank& self) {
    CHECK(self.on_device().limits().measured);
    for (const device::Limits& other : device::exchanged(self.engine(), *self.group(), self.on_device().limits()))
      CHECK(other == self.on_device().limits());
  });
}

// Two machines of two devices each; on one of them they may not reach each other, and all know why.
TEST(devices_of_two_machines) {
  for (const bool reach : {true, false}) {
    const std::vector<int> machines{0, 0, 1, 1};
    run({.size = 4, .machines = machines, .devices = {1, 2, 3, 4}, .plans = {{"all_reduce", {machine_plan(machines)}}}},
        [reach](DeviceRank& self) {
          if (self.rank() == 2) double_reach(reach);
          add_up(self, kEach[2], reach ? Path::by_machine : Path::staged);
          const std::string why = self.on_device().last().why;
          CHECK(contains(why, "the ranks are on several machines"));
          CHECK(reach || contains(why, "rank 2: the memory of rank 3 on another device"));
        });
  }
}
