// The collectives of device memory as a caller sees them: each says which blocks go where, and hands that to the
// device.
//
// All addresses are of memory of the group's device, and counts are of elements. They throw Failure (invalid) for
// arguments that make no sense, and what DeviceGroup::start throws.
#pragma once

#include <memory>
#include <vector>

#include "device/device_group.hpp"

namespace paceline::device {

using Handed = std::shared_ptr<Pending>;

// wanted: as of the engine's collectives, but with a residual in memory of the device.
Handed all_reduce(DeviceGroup&, Address data, std::size_t count, DType, Op, double factor, StreamHandle,
                  const Wanted& wanted = {});
// Of several blocks at once, which are packed in memory of as many elements; one without an address stands for zeros.
Handed all_reduce(DeviceGroup&, std::vector<Block> blocks, Address memory, DType, Op, StreamHandle);
Handed broadcast(DeviceGroup&, Address data, std::size_t count, DType, int root, StreamHandle,
                 const Wanted& wanted = {});
// The root's `to` may be its `source`; other ranks' is not written.
Handed reduce(DeviceGroup&, Address source, Address to, std::size_t count, DType, Op, double factor, int root,
              StreamHandle);
// `source` may be this rank's block in `data`, and that of reduce_scatter likewise.
Handed all_gather(DeviceGroup&, Address source, Address data, std::size_t count, DType, StreamHandle,
                  const Wanted& wanted = {});
Handed reduce_scatter(DeviceGroup&, Address source, Address to, std::size_t count, DType, Op, double factor,
                      StreamHandle, const Wanted& wanted = {});
// all_gather, gather, scatter and all_to_all, of a block for each rank on both sides.
Handed exchange(DeviceGroup&, Collective, std::vector<Block> sends, std::vector<Block> recvs, DType, int root,
                StreamHandle);

}  // namespace paceline::device
