// Collectives of a group on device memory.
//
// A call hands all of its work to the stream of the group at once, and returns: the caller's stream comes before it by
// an event, and after it by another one, when the caller wants that. What other ranks have to do in between the stream
// waits for itself, in words of pinned memory that their streams write (Signals), and what the host has to do it waits
// for likewise (Control). No kernel waits for another process, which might not run before it ends.
//
// One-shot: a rank copies its data to its scratch memory and tells the others `given`; it waits for theirs, combines
// everybody's scratch memory into its own buffer and tells them `taken`. It has scratch memory for two calls, and
// overwrites it after everybody's `taken` of the last one-shot call but one.
//
// Direct: a rank shows its memory and tells `given`, and waits for the others' and for the addresses of theirs, which
// its host gets meanwhile (DeviceOperation). It takes what it needs from all buffers, and tells `taken`. It is through
// when all have told so. Data that others cannot map are copied to memory that they can.
//
// Two-shot: as direct, but a rank takes its part of all buffers, and writes the combination to all of them
// (reduce-scatter and all-gather at once).
//
// Blocks that go as one are copied one behind the other on the same stream before, and back after.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "device/choice.hpp"
#include "device/neighbours.hpp"
#include "device/pending.hpp"
#include "device/staging.hpp"

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

  // Leaves the group: waits a moment until the device is through and all ranks have left. It must come before the
  // engine closes; further calls throw Failure (invalid).
  void close();
  bool closed() const { return neighbours_ == nullptr; }
  const Group& group() const { return *group_; }

  // Hands a collective to the device, and waits for nobody, unless kCalls are under way. Throws Failure: invalid for
  // memory or a stream that will not do; aborted if a function of the device fails, on other ranks too; and the failure
  // of the group, if it has failed. Others fail the call later: see Pending.
  std::shared_ptr<Pending> start(const Call& call);

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
  std::shared_ptr<Pending> carry_out(const Call& call, const Choice& choice);
  void make_room();
  std::shared_ptr<DeviceOperation> begin(const Call& call);
  std::unique_ptr<DeviceOperation::Direct> show(const Call& call, Notice& notice);
  Address window(std::size_t bytes);
  void hand_over(const Call& call, DeviceOperation& operation);
  void settle(StreamHandle caller) noexcept;
  void pack(const Call& call);
  void unpack(const Call& call);
  void one_shot(const Call& call, std::uint32_t number);
  void direct(const Call& call, const DeviceOperation& operation);
  void move(Address from, Address to, std::size_t count, const Call& call);
  void launch(const Call& call, Parameters& parameters);
  template <typename Work>
  void attempt(const std::string& what, Work&& work);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Device> device_;
  PointerCache& pointers_;
  const Driver& driver_;
  std::unique_ptr<Neighbours> neighbours_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Event> before_;
  ShownMemory shown_;
  Memory window_;  // of this rank, for what others take that they cannot map; none if it has no length
  std::mutex mutex_;
  std::deque<std::shared_ptr<DeviceOperation>> under_way_;
  std::uint32_t calls_ = 0;
  std::uint32_t one_shots_[2] = {};  // the last calls that have used each part of the scratch memory; 0 if none has
  unsigned turn_ = 0;
  Limits limits_;
  Choice last_;
};

}  // namespace paceline::device
