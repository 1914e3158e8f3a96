// What a caller can know of a call before any rank counts on it.
#pragma once

#include "device/call.hpp"
#include "device/device.hpp"

namespace paceline::device {

// Throws Failure (invalid) unless all of the call's blocks are memory of this device and its stream can take work; and
// DriverError.
void check(const Call& call, const Device& device, PointerCache& pointers);

}  // namespace paceline::device
