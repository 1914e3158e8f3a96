// Collectives of a group on device memory.
//
// A call hands all of its work to the stream of the group at once (work.hpp), and returns: the caller's stream comes
// before it by an event, and after it by another one, when the caller wants that.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "device/choice.hpp"
#include "device/neighbours.hpp"
#include "device/pending.hpp"
#include "device/staging.hpp"
#include "device/work.hpp"

namespace paceline::device {

// The ranks of the group make theirs, and call it, in the same order as all collectives.
class DeviceGroup {
 public:
  // Collective, and returns when all ranks have made theirs and, where their kernels reach each other's memory, have
  // timed which way is fastest for how many bytes (trials.hpp). Throws Failure as collectives do, and if a rank cannot
  // have pinned memory; what else a device lacks only makes calls go through the host.
  DeviceGroup(std::shared_ptr<Engine> engine, std::shared_ptr<Group> group, std::shared_ptr<Device> device,
              PointerCache& pointers);
  ~DeviceGroup() { close(); }
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // Leaves the group: waits a moment until the device is through and all ranks have left. If a call is still under way
  // then, the group fails. It must come before the engine closes; further calls throw Failure (invalid). Returns
  // whether no rank uses memory any more that calls have used.
  bool close();
  bool closed() const { return neighbours_ == nullptr; }
  const Group& group() const { return *group_; }

  // Hands a collective to the device, and waits for nobody, unless kCalls are under way. Throws Failure: invalid for
  // memory or a stream that will not do; aborted if a function of the device fails, on other ranks too; and the failure
  // of the group, if it has failed. Others fail the call later: see Pending.
  std::shared_ptr<Pending> start(const Call& call);
  // Of a group that has failed: returns once no other rank's kernels are in memory of calls any more, and lets what
  // `stream` does from then on come after what this device still does. Throws DriverError.
  void finish_before(StreamHandle stream);

  // How the last call went, and why.
  const Choice& last() const { return last_; }
  const Limits& limits() const { return limits_; }
  // Whether two ranks or more have the same device.
  bool share_device() const { return neighbours_->share_device(); }
  std::size_t opened() const { return neighbours_->memory().size(); }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(group_->rank); }
  std::size_t size() const { return static_cast<std::size_t>(group_->size()); }
  StreamHandle stream() const { return neighbours_->stream().get(); }

  Limits find();
  double timed(Path path, std::size_t bytes);
  std::optional<MachineFirst> machine_first(const Call& call) const;
  // machines: the plan, where those come first.
  std::shared_ptr<Pending> carry_out(const Call& call, const Choice& choice, const MachineFirst* machines = nullptr);
  void check_open(const Call& call) const;
  void make_room();
  std::shared_ptr<DeviceOperation> begin(const Call& call, const MachineFirst* machines);
  std::unique_ptr<DeviceOperation::Direct> show(const Call& call, Notice& notice);
  Address window(std::size_t bytes);
  void settle(StreamHandle caller) noexcept;
  template <typename Work>
  void attempt(const std::string& what, Work&& work);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Device> device_;
  PointerCache& pointers_;
  const Driver& driver_;
  std::unique_ptr<Neighbours> neighbours_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Work> work_;
  std::unique_ptr<Event> before_;
  ShownMemory shown_;
  Memory window_;  // of this rank, for what others take that they cannot map; none if it has no length
  bool left_together_ = true;
  std::mutex mutex_;
  std::deque<std::shared_ptr<DeviceOperation>> under_way_;
  std::uint32_t calls_ = 0;
  Limits limits_;
  Choice last_;
};

}  // namespace paceline::device
