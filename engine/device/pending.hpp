#pragma once

#include <memory>

#include "device/device_operation.hpp"
#include "device/moment.hpp"

namespace paceline::device {

// A call whose work has been handed to the device.
class Pending {
 public:
  Pending(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device, std::shared_ptr<DeviceOperation> operation);

  // Whether it is over, well or not.
  bool done() const { return engine_->is_over(*operation_); }
  // What `stream` does from now on comes after it. The host does not wait. Throws the call's failure if it is known.
  void order_before(StreamHandle stream) const;
  // The host waits until it is over, so many seconds at most; negative: as many as the group has. Throws its failure.
  void wait(std::chrono::duration<double> timeout) const { engine_->wait(*operation_, timeout); }

  void record(StreamHandle stream) { finished_.record(stream); }
  const std::shared_ptr<DeviceOperation>& operation() const { return operation_; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<DeviceOperation> operation_;
  Moment finished_;
};

}  // namespace paceline::device
