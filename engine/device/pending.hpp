#pragma once

#include <memory>

#include "device/device.hpp"
#include "device/streams.hpp"

namespace paceline::device {

// An operation whose work has been handed to the device.
class Pending {
 public:
  explicit Pending(std::shared_ptr<Device> device);
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Whether the device has done it.
  bool done() const;
  // What `stream` does from now on comes after it. The host does not wait.
  void order_before(StreamHandle stream) const;
  void record(StreamHandle stream) { finished_->record(stream); }

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<Event> finished_;
};

}  // namespace paceline::device
