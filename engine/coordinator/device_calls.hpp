// Hands requests to a device, in the order in which their batches begin.
//
// It does so in a thread of its own, which does not hold the engine's lock meanwhile: the driver may let a caller wait
// until the device has come further, and the device may wait for what the engine's loop does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "coordinator/batch_work.hpp"
#include "device/collectives.hpp"
#include "progress/collectives.hpp"

namespace paceline {

// A request, or several all_reduces that go as one, that waits for its turn, or that the device has. The engine's lock
// guards what comes of it.
struct DeviceCall {
  std::vector<Carried> carried;
  std::shared_ptr<device::Device> device;  // null if this rank has submitted nothing on one so far
  std::vector<std::size_t> counts;         // by rank: the elements that come here, where ranks may differ
  std::weak_ptr<const Allocate> allocate;  // gone once the request has failed
  std::vector<Handle> operations = {};     // that carry it out
  bool started = false;
  Error error = {};  // why it could not start
};

class DeviceCalls {
 public:
  // `like` shows how to make the group whose calls these are; nothing else uses its channel. `moved` is called, with
  // the engine's lock held, after each request that was started or could not be.
  DeviceCalls(std::shared_ptr<Engine> engine, std::shared_ptr<Group> like, std::uint64_t channel,
              std::function<void()> moved);
  ~DeviceCalls() { close(); }
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // The caller of these holds the engine's lock.
  // All requests are of one device. Throws Failure (invalid) for another one than that of the first request.
  void admit(const std::shared_ptr<device::Moment>& after, const std::shared_ptr<device::Devices>& devices);
  std::shared_ptr<DeviceCall> hand_over(std::vector<Carried> carried, std::vector<std::size_t> counts = {});
  // That of the group; null if there is none.
  const Error* error() const { return group_ != nullptr && group_->error ? &group_->error : nullptr; }
  void fail_group(const Error& error);
  // Of a request that was handed over and has failed: calls `then`, with the lock held, once no other rank is in its
  // memory any more, and the stream with which it was submitted comes after what this device still does there.
  void when_released(const PendingRequest& request, std::function<void()> then);
  // Starts nothing more. If requests have failed that were handed over, their group fails on all ranks.
  void leave();

  // The caller does not hold the lock, and has it left before. Waits a moment until the device is through, as
  // DeviceGroup::close does; it must come before the engine closes.
  void close();

 private:
  void forget_after_fork();
  void serve();
  void release(device::StreamHandle stream) const;
  std::vector<Handle> start(const DeviceCall& call);
  device::Handed start(const CollectiveCall& call);
  std::vector<Handle> reduce_scatter(const DeviceCall& call);
  device::Handed reduce_packed(const DeviceCall& call);
  device::Handed gather(const DeviceCall& call);
  device::Handed send_to_all(const DeviceCall& call);
  device::Address output(const DeviceCall& call);
  device::Handed stand_in(const DeviceCall& call);
  device::Address spare(std::size_t bytes);

  const std::shared_ptr<Engine> engine_;
  LoopHost& loop_;  // the same engine
  const std::shared_ptr<Group> like_;
  const std::uint64_t channel_;
  const std::function<void()> moved_;

  std::shared_ptr<device::Devices> devices_;
  std::shared_ptr<device::Device> device_;
  std::shared_ptr<Group> group_;
  std::deque<std::shared_ptr<DeviceCall>> queue_;
  struct Leaving {
    device::StreamHandle stream;
    std::function<void()> then;
  };
  std::deque<Leaving> leaving_;
  std::condition_variable came_;
  bool left_ = false;

  std::mutex closing_;
  std::thread thread_;
  std::unique_ptr<device::Stream> entry_;  // comes after what callers' streams had to do
  std::unique_ptr<device::DeviceGroup> on_device_;
  // Where requests are packed that go as one, and what this rank uses once it has joined; and the last call that uses
  // it. Earlier ones stay in use until the end.
  struct Spare {
    device::Address address;
    std::size_t bytes;
  };
  std::vector<Spare> spares_;
  device::Handed last_spare_;
};

}  // namespace paceline
