#include "device/check.hpp"

#include <string>

#include "failure/error.hpp"

namespace paceline::device {

void check(const Call& call, const Device& device, PointerCache& pointers) {
  CaptureStatus capture = CaptureStatus::none;
  device.driver().check(device.driver().stream_capture(call.stream, &capture), "cuStreamIsCapturing");
  if (capture != CaptureStatus::none)
    throw Failure(ErrorKind::invalid, "the stream records a CUDA graph, and a collective cannot be part of one");
  Memory memory;
  for (const auto* blocks : {&call.input, &call.output, &call.residual, &call.packed})
    for (const Block& block : *blocks) {
      if (block.count == 0 || (blocks == &call.packed && block.data == 0) ||
          memory.holds(block.data, call.bytes(block)))
        continue;
      memory = pointers.find(block.data);
      if (!memory.on_device() || memory.device != device.ordinal())
        throw Failure(ErrorKind::invalid, "the buffer is no memory of device " + std::to_string(device.ordinal()) +
                                              ", which this group works on, but " + name_of(memory.kind) + " memory");
      if (!memory.holds(block.data, call.bytes(block)))
        throw Failure(ErrorKind::invalid, "the buffer ends outside of its memory");
    }
}

}  // namespace paceline::device
