// Order on a device: streams and events of this process, and events that another process has recorded.
//
// A collective waits for nothing on the host that the device can wait for: its work goes to a stream that waits for
// events of the caller's stream and of the other ranks, and the caller's stream waits for an event of it in turn. A
// wait for an event means its last record before the call of `wait_for`. So a rank must know on the host that another
// one has called `record` before it calls `wait_for`; the ranks' exchanges of notices see to that.
//
// The context of the device must be current wherever these are used, made or destroyed.
#pragma once

#include "device/driver.hpp"

namespace paceline::device {

class Event {
 public:
  explicit Event(const Driver& driver, unsigned flags = kEventDisableTiming) : driver_(driver) {
    driver_.check(driver_.event_create(&handle_, flags), "cuEventCreate");
  }
  Event(const Driver& driver, const IpcHandle& of_peer) : driver_(driver) {
    driver_.check(driver_.ipc_open_event(&handle_, of_peer), "cuIpcOpenEventHandle");
  }
  Event(Event&& other) noexcept : driver_(other.driver_), handle_(other.handle_) { other.handle_ = nullptr; }
  ~Event() {
    if (handle_ != nullptr) driver_.event_destroy(handle_);
  }
  Event& operator=(Event&&) = delete;

  EventHandle get() const { return handle_; }
  void record(StreamHandle stream) { driver_.check(driver_.event_record(handle_, stream), "cuEventRecord"); }
  // Whether all work before the last record is over.
  bool done() const {
    const Result result = driver_.event_query(handle_);
    if (result == Result::not_ready) return false;
    driver_.check(result, "cuEventQuery");
    return true;
  }

 private:
  const Driver& driver_;
  EventHandle handle_ = nullptr;
};

// An event that other processes can open.
class SharedEvent : public Event {
 public:
  explicit SharedEvent(const Driver& driver) : Event(driver, kEventDisableTiming | kEventInterprocess) {
    driver.check(driver.ipc_export_event(&handle_, get()), "cuIpcGetEventHandle");
  }
  const IpcHandle& handle() const { return handle_; }

 private:
  IpcHandle handle_;
};

inline void wait_for(const Driver& driver, StreamHandle stream, const Event& event) {
  driver.check(driver.stream_wait(stream, event.get(), 0), "cuStreamWaitEvent");
}

// A stream that runs beside all others, the default one too.
class Stream {
 public:
  explicit Stream(const Driver& driver) : driver_(driver) {
    driver_.check(driver_.stream_create(&handle_, kStreamNonBlocking), "cuStreamCreate");
  }
  ~Stream() { driver_.stream_destroy(handle_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle get() const { return handle_; }
  void wait_for(const Event& event) { device::wait_for(driver_, handle_, event); }
  void synchronize() { driver_.check(driver_.stream_synchronize(handle_), "cuStreamSynchronize"); }

 private:
  const Driver& driver_;
  StreamHandle handle_ = nullptr;
};

}  // namespace paceline::device
