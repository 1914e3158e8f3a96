#include "device/pending.hpp"

#include <utility>

#include "device/parting.hpp"

namespace paceline::device {

Pending::Pending(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device,
                 std::shared_ptr<DeviceOperation> operation)
    : engine_(std::move(engine)), device_(std::move(device)), operation_(std::move(operation)) {
  const Current current(device_->driver(), device_->context());
  finished_ = std::make_unique<Event>(device_->driver());
}

// Without a context the driver would refuse, and frees the event with the context anyway.
Pending::~Pending() {
  try_to([&] {
    const Current current(device_->driver(), device_->context());
    finished_.reset();
  });
}

void Pending::order_before(StreamHandle stream) const {
  if (done()) wait(std::chrono::duration<double>(-1));  // it is over: this throws its failure
  const Current current(device_->driver(), device_->context());
  wait_for(device_->driver(), stream, *finished_);
}

}  // namespace paceline::device
