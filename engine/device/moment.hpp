// What a stream had to do at some moment, for other streams to come after it.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "device/parting.hpp"
#include "device/streams.hpp"

namespace paceline::device {

class Moment {
 public:
  // Throws DriverError, and so do the other functions.
  explicit Moment(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Current current(device_->driver(), device_->context());
    event_ = std::make_unique<Event>(device_->driver());
  }
  // Without a context the driver would refuse, and frees the event with the context anyway.
  ~Moment() {
    try_to([&] {
      const Current current(device_->driver(), device_->context());
      event_.reset();
    });
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  // It is now.
  void record(StreamHandle stream) {
    const Current current(device_->driver(), device_->context());
    event_->record(stream);
    stream_ = stream;
  }
  // What `stream` does from now on comes after it.
  void order_before(StreamHandle stream) const {
    const Current current(device_->driver(), device_->context());
    wait_for(device_->driver(), stream, *event_);
  }
  const std::shared_ptr<Device>& device() const { return device_; }
  // That of the last record.
  StreamHandle stream() const { return stream_; }

 private:
  const std::shared_ptr<Device> device_;
  std::unique_ptr<Event> event_;
  StreamHandle stream_ = nullptr;
};

}  // namespace paceline::device
