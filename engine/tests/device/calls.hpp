// The calls of a device that tests make most, in one line each.
#pragma once

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
  return start(group, call_of(Collective::all_reduce, nullptr, pointer(data), count, dtype, encoding, -1, op, factor),
               stream);
}

inline Handed broadcast(DeviceGroup& group, Address data, std::size_t count, DType dtype, int root, StreamHandle stream,
                        const Encoding& encoding = {}) {
  return start(group, call_of(Collective::broadcast, nullptr, pointer(data), count, dtype, encoding, root), stream);
}

inline Handed reduce(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op,
                     double factor, int root, StreamHandle stream) {
  return start(group, call_of(Collective::reduce, pointer(source), pointer(to), count, dtype, {}, root, op, factor),
               stream);
}

inline Handed all_gather(DeviceGroup& group, Address source, Address data, std::size_t count, DType dtype,
                         StreamHandle stream, const Encoding& encoding = {}) {
  return start(group, call_of(Collective::all_gather, pointer(source), pointer(data), count, dtype, encoding), stream);
}

inline Handed reduce_scatter(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op,
                             double factor, StreamHandle stream, const Encoding& encoding = {}) {
  return start(
      group, call_of(Collective::reduce_scatter, pointer(source), pointer(to), count, dtype, encoding, -1, op, factor),
      stream);
}

inline Handed exchange(DeviceGroup& group, Collective collective, const std::vector<Block>& sends,
                       const std::vector<Block>& receives, DType dtype, int root, StreamHandle stream) {
  return start(group, exchange_of(collective, elements_of(sends), elements_of(receives), dtype, root), stream);
}

}  // namespace paceline::device
