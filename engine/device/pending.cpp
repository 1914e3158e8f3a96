#include "device/pending.hpp"

#include <utility>

namespace paceline::device {

Pending::Pending(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device,
                 std::shared_ptr<DeviceOperation> operation)
    : engine_(std::move(engine)), operation_(std::move(operation)), finished_(std::move(device)) {}

void Pending::order_before(StreamHandle stream) const {
  if (done()) wait(std::chrono::duration<double>(-1));  // it is over: this throws its failure
  finished_.order_before(stream);
}

}  // namespace paceline::device
