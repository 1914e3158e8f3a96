// The calls of a device that tests make most, in one line each.
#pragma once

#include <utility>
#include <vector>

#include "device/collectives.hpp"
#include "tests/calls.hpp"

namespace paceline::device {

inline std::vector<Elements> elements_of(const std::vector<Block>& blocks) {
  std::vector<Elements> all;
  for (const Block& block : blocks) all.push_back({pointer(block.data), block.count});
  return all;
}

inline Handed all_reduce(DeviceGroup& group, Address data, std::size_t count, DType dtype, Op op, double factor,
                         StreamHandle stream, const Encoding& encoding = {}) {
  const CollectiveCall call{.collective = Collective::all_reduce,
                            .target = pointer(data),
                            .count = count,
                            .dtype = dtype,
                            .op = op,
                            .factor = factor,
                            .codec = encoding.codec,
                            .residual = encoding.residual};
  return start(group, call, stream);
}

inline Handed broadcast(DeviceGroup& group, Address data, std::size_t count, DType dtype, int root, StreamHandle stream,
                        const Encoding& encoding = {}) {
  const CollectiveCall call{.collective = Collective::broadcast,
                            .target = pointer(data),
                            .count = count,
                            .dtype = dtype,
                            .root = root,
                            .codec = encoding.codec};
  return start(group, call, stream);
}

inline Handed reduce(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op,
                     double factor, int root, StreamHandle stream) {
  const CollectiveCall call{.collective = Collective::reduce,
                            .source = pointer(source),
                            .target = pointer(to),
                            .count = count,
                            .dtype = dtype,
                            .op = op,
                            .factor = factor,
                            .root = root};
  return start(group, call, stream);
}

inline Handed all_gather(DeviceGroup& group, Address source, Address data, std::size_t count, DType dtype,
                         StreamHandle stream, const Encoding& encoding = {}) {
  const CollectiveCall call{.collective = Collective::all_gather,
                            .source = pointer(source),
                            .target = pointer(data),
                            .count = count,
                            .dtype = dtype,
                            .codec = encoding.codec};
  return start(group, call, stream);
}

inline Handed reduce_scatter(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op,
                             double factor, StreamHandle stream, const Encoding& encoding = {}) {
  const CollectiveCall call{.collective = Collective::reduce_scatter,
                            .source = pointer(source),
                            .target = pointer(to),
                            .count = count,
                            .dtype = dtype,
                            .op = op,
                            .factor = factor,
                            .codec = encoding.codec,
                            .residual = encoding.residual};
  return start(group, call, stream);
}

inline Handed exchange(DeviceGroup& group, Collective collective, const std::vector<Block>& sends,
                       const std::vector<Block>& receives, DType dtype, int root, StreamHandle stream) {
  const CollectiveCall call{.collective = collective,
                            .dtype = dtype,
                            .root = root,
                            .sends = elements_of(sends),
                            .receives = elements_of(receives)};
  return start(group, call, stream);
}

}  // namespace paceline::device
