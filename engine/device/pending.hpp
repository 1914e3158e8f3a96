#pragma once

#include <memory>

#include "device/device_operation.hpp"
#include "device/moment.hpp"

namespace paceline::device {

// A call whose work has been handed to the device.
class Pending {
 public:
  // stream: the caller's.
  Pending(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device, std::shared_ptr<DeviceOperation> operation,
          StreamHandle stream);

  // Whether it is over, well or not. If not well, the device may still be in its memory.
  bool done() const { return engine_->is_over(*operation_); }
  // What `stream` does from now on comes after it, also after one that has failed. The host does not wait. Throws the
  // call's failure if it is known.
  void order_before(StreamHandle stream) const;
  // The host waits until it is over, so many seconds at most; negative: as many as the group has. Throws its failure;
  // what the caller's stream does from then on comes after it.
  void wait(std::chrono::duration<double> timeout) const { wait(timeout, stream_); }
  // The same for another stream than that of the call.
  void wait(std::chrono::duration<double> timeout, StreamHandle stream) const;
  StreamHandle stream() const { return stream_; }

  void record(StreamHandle stream) { finished_.record(stream); }
  const std::shared_ptr<DeviceOperation>& operation() const { return operation_; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<DeviceOperation> operation_;
  const StreamHandle stream_;
  Moment finished_;
};

}  // namespace paceline::device
