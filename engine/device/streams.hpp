// Order on a device: streams and events of this process.
//
// The context of the device must be current wherever these are used, made or destroyed.
#pragma once

#include "device/driver.hpp"

namespace paceline::device {

class Event {
 public:
  explicit Event(const Driver& driver) : driver_(driver) {
    driver_.check(driver_.event_create(&handle_, kEventDisableTiming), "cuEventCreate");
  }
  ~Event() { driver_.event_destroy(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle get() const { return handle_; }
  void record(StreamHandle stream) { driver_.check(driver_.event_record(handle_, stream), "cuEventRecord"); }

 private:
  const Driver& driver_;
  EventHandle handle_ = nullptr;
};

// What `stream` is given from now on comes after what came before the last record of the event.
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

 private:
  const Driver& driver_;
  StreamHandle handle_ = nullptr;
};

}  // namespace paceline::device
