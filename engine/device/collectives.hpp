// The collectives of device memory as a caller sees them: each says which blocks go where, and hands that to the
// device.
//
// All memory of a call is of the group's device. They throw Failure (invalid) for arguments that make no sense, and
// what DeviceGroup::start throws. The source of all_gather and the target of reduce_scatter may be this rank's block in
// the other; the root's target of a reduce may be its source, and other ranks' is not written.
#pragma once

#include <memory>
#include <vector>

#include "device/device_group.hpp"
#include "types/call.hpp"

namespace paceline::device {

using Handed = std::shared_ptr<Pending>;

Handed start(DeviceGroup&, const CollectiveCall&, StreamHandle);
// An all_reduce of several blocks at once, which are packed in the call's target; one without an address stands for
// zeros.
Handed start_packed(DeviceGroup&, const CollectiveCall&, std::vector<Block> blocks, StreamHandle);

}  // namespace paceline::device
