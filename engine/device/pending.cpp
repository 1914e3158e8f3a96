#include "device/pending.hpp"

#include <utility>

#include "device/parting.hpp"

namespace paceline::device {

Pending::Pending(std::shared_ptr<Device> device) : device_(std::move(device)) {
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

bool Pending::done() const {
  const Current current(device_->driver(), device_->context());
  return finished_->done();
}

void Pending::order_before(StreamHandle stream) const {
  const Current current(device_->driver(), device_->context());
  wait_for(device_->driver(), stream, *finished_);
}

}  // namespace paceline::device
