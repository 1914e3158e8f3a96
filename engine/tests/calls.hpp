// The calls that tests make most, in one line each.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "progress/collectives.hpp"

namespace paceline {

struct Encoding {
  std::optional<Codec> codec;
  std::byte* residual = nullptr;
};

// A call of the host or of a device.
inline CollectiveCall call_of(Collective collective, const std::byte* source, std::byte* to, std::size_t count,
                              DType dtype, const Encoding& encoding = {}, int root = -1, Op op = Op::sum,
                              double factor = 1) {
  return {.collective = collective,
          .source = source,
          .target = to,
          .count = count,
          .dtype = dtype,
          .op = op,
          .factor = factor,
          .root = root,
          .codec = encoding.codec,
          .residual = encoding.residual};
}

inline CollectiveCall exchange_of(Collective collective, std::vector<Elements> sends, std::vector<Elements> receives,
                                  DType dtype, int root) {
  return {.collective = collective,
          .dtype = dtype,
          .root = root,
          .sends = std::move(sends),
          .receives = std::move(receives)};
}

inline CollectiveCall message(Collective collective, std::byte* data, std::size_t count, DType dtype, int peer,
                              std::int32_t tag) {
  return {.collective = collective, .target = data, .count = count, .dtype = dtype, .peer = peer, .tag = tag};
}

inline Handle all_reduce(Engine& engine, Group& group, const std::byte* source, std::byte* to, std::size_t count,
                         DType dtype, Op op, double factor, Mode mode, const Encoding& encoding = {}) {
  return start(engine, group, call_of(Collective::all_reduce, source, to, count, dtype, encoding, -1, op, factor),
               mode);
}

inline Handle all_reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op,
                         double factor, Mode mode, const Encoding& encoding = {}) {
  return all_reduce(engine, group, nullptr, data, count, dtype, op, factor, mode, encoding);
}

inline Handle broadcast(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int root,
                        Mode mode, const Encoding& encoding = {}) {
  return start(engine, group, call_of(Collective::broadcast, nullptr, data, count, dtype, encoding, root), mode);
}

inline Handle reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op,
                     double factor, int root, Mode mode) {
  return start(engine, group, call_of(Collective::reduce, nullptr, data, count, dtype, {}, root, op, factor), mode);
}

inline Handle all_gather(Engine& engine, Group& group, const std::byte* source, std::byte* data, std::size_t count,
                         DType dtype, Mode mode, const Encoding& encoding = {}) {
  return start(engine, group, call_of(Collective::all_gather, source, data, count, dtype, encoding), mode);
}

inline Handle reduce_scatter(Engine& engine, Group& group, const std::byte* source, std::byte* to, std::size_t count,
                             DType dtype, Op op, double factor, Mode mode, const Encoding& encoding = {}) {
  return start(engine, group, call_of(Collective::reduce_scatter, source, to, count, dtype, encoding, -1, op, factor),
               mode);
}

inline Handle exchange(Engine& engine, Group& group, Collective collective, std::vector<Elements> sends,
                       std::vector<Elements> receives, DType dtype, int root, Mode mode) {
  return start(engine, group, exchange_of(collective, std::move(sends), std::move(receives), dtype, root), mode);
}

inline Handle barrier(Engine& engine, Group& group, Mode mode) {
  return start(engine, group, {.collective = Collective::barrier}, mode);
}

inline Handle send(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer,
                   std::int32_t tag, Mode mode) {
  return start(engine, group, message(Collective::send, data, count, dtype, peer, tag), mode);
}

inline Handle receive(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer,
                      std::int32_t tag, Mode mode, int* sender = nullptr) {
  return receive(engine, group, message(Collective::recv, data, count, dtype, peer, tag), mode, sender);
}

}  // namespace paceline
