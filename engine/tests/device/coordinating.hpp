// Named requests on memory of a device, by ranks that are processes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/coordinator.hpp"
#include "tests/device/double/wishes.hpp"
#include "tests/device/processes.hpp"

namespace paceline::test {

// A rank with a coordinator.
class Coordinating {
 public:
  using Request = std::shared_ptr<PendingRequest>;

  explicit Coordinating(DeviceRank& self, const std::string& policy = "board") : self_(self) {
    const std::shared_ptr<Engine> engine(&self.engine(), [](Engine*) {});
    std::vector<int> peers;
    for (const Member& member : self.group()->members) peers.push_back(member.peer);
    const auto group = [&](std::uint64_t channel) {
      return engine->add_group(channel, self.rank(), peers, self.group()->timeout, plans_for(self.size(), false));
    };
    PolicyOptions options;
    options.cycle_seconds = 0.0005;
    options.wait = Synchronise::Wait::yield;
    const std::vector<int> machine_of(static_cast<std::size_t>(self.size()), 0);
    coordinator_ = std::make_shared<Coordinator>(engine, group(1000), group(1001), policy, options, machine_of);
    std::uint64_t offset = coordinator_->board_offset();
    broadcast(*engine, *self.group(), reinterpret_cast<std::byte*>(&offset), 1, DType::int64, 0, Mode::blocking);
    coordinator_->open(offset);
  }
  ~Coordinating() { coordinator_->close(); }
  Coordinating(const Coordinating&) = delete;
  Coordinating& operator=(const Coordinating&) = delete;

  template <typename T>
  RequestArguments arguments(std::string_view name, const DeviceValues<T>& values, DType dtype,
                             device::StreamHandle stream = nullptr) {
    RequestArguments all{name,
                         {.collective = Collective::all_reduce,
                          .target = device::pointer(values.address()),
                          .count = values.count(),
                          .dtype = dtype}};
    all.on_device = {std::shared_ptr<device::Devices>(&self_.devices(), [](device::Devices*) {}), 0, stream};
    return all;
  }
  Request all_reduce(std::string_view name, const DeviceValues<float>& values, device::StreamHandle stream = nullptr) {
    return coordinator_->submit(arguments(name, values, DType::float32, stream));
  }
  Request on_host(std::string_view name, std::vector<float>& values) {
    return coordinator_->submit({name,
                                 {.collective = Collective::all_reduce,
                                  .target = bytes(values),
                                  .count = values.size(),
                                  .dtype = DType::float32}});
  }
  void wait(const Request& request) { self_.engine().wait(*request, std::chrono::duration<double>(-1)); }
  Error failed(const Request& request) {
    return failure_of([&] { wait(request); });
  }
  Coordinator& coordinator() { return *coordinator_; }

 private:
  DeviceRank& self_;
  std::shared_ptr<Coordinator> coordinator_;
};

inline std::vector<float> ramp_of(std::size_t count, int salt) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i + static_cast<std::size_t>(salt)) % 10);
  return values;
}

inline std::vector<float> sum_of_ramps(std::size_t count, int ranks) {
  std::vector<float> sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto theirs = ramp_of(count, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += theirs[i];
  }
  return sum;
}

inline void fail_next(const char* function) {
  double_fail(function, static_cast<int>(device::Result::out_of_memory), 0);
}

}  // namespace paceline::test
