#include "device/pending.hpp"

#include <utility>

#include "device/parting.hpp"

namespace paceline::device {

Pending::Pending(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device,
                 std::shared_ptr<DeviceOperation> operation, StreamHandle stream)
    : engine_(std::move(engine)), operation_(std::move(operation)), stream_(stream), finished_(std::move(device)) {}

// Whoever hears of a failure uses the memory for something else, which the stream then does after this call.
void Pending::order_before(StreamHandle stream) const {
  const bool over = done();
  if (over && operation_->state() == Operation::State::failed)
    wait(std::chrono::duration<double>(-1), stream);
  else
    finished_.order_before(stream);
}

void Pending::wait(std::chrono::duration<double> timeout, StreamHandle stream) const {
  try {
    engine_->wait(*operation_, timeout);
  } catch (const Failure&) {
    try_to([&] { finished_.order_before(stream); });  // or the context is gone, and nothing is under way
    throw;
  }
}

}  // namespace paceline::device
