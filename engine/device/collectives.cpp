#include "device/collectives.hpp"

#include <utility>

#include "progress/arguments.hpp"

namespace paceline::device {
namespace {

std::size_t ranks_of(const DeviceGroup& group) { return static_cast<std::size_t>(group.group().size()); }

// Sets how what a call gives goes between machines. blocks: of which all of its data consist.
void encode(Call& call, const DeviceGroup& group, const Wanted& wanted, std::size_t blocks) {
  const std::size_t bytes = call.count * size_of(call.dtype) * blocks;
  call.codec = codec_for(group.group(), wanted, call.collective, bytes, call.dtype, call.op);
  if (call.codec == Codec::none || wanted.residual == nullptr) return;
  call.residual = blocks_at(address(wanted.residual), call.count, call.dtype, blocks);
}

Call reduction_of(Address data, std::size_t count, DType dtype, Op op, StreamHandle stream) {
  check_reduction(dtype, op);
  const Numbers parts = parts_of(dtype, count);
  return {.collective = Collective::all_reduce,
          .input = {{data, parts.count}},
          .output = {{data, parts.count}},
          .count = parts.count,
          .dtype = parts.dtype,
          .of_caller = dtype,
          .op = op,
          .stream = stream};
}

}  // namespace

Handed all_reduce(DeviceGroup& group, Address data, std::size_t count, DType dtype, Op op, double factor,
                  StreamHandle stream, const Wanted& wanted) {
  Call call = reduction_of(data, count, dtype, op, stream);
  call.factor = factor;
  encode(call, group, wanted, 1);
  return group.start(call);
}

Handed all_reduce(DeviceGroup& group, std::vector<Block> blocks, Address memory, DType dtype, Op op,
                  StreamHandle stream) {
  std::size_t count = 0;
  for (const Block& block : blocks) count += block.count;
  Call call = reduction_of(memory, count, dtype, op, stream);
  call.packed = std::move(blocks);
  encode(call, group, {}, 1);
  return group.start(call);
}

// If it is encoded, the root, too, ends with what the others decode.
Handed broadcast(DeviceGroup& group, Address data, std::size_t count, DType dtype, int root, StreamHandle stream,
                 const Wanted& wanted) {
  check_rank(group.group(), root, "the root");
  Call call{.collective = Collective::broadcast,
            .count = count,
            .dtype = unmarked(dtype),
            .of_caller = dtype,
            .root = root,
            .stream = stream};
  encode(call, group, wanted, 1);
  const bool gives = group.group().rank == root;
  if (gives) call.input = {{data, count}};
  if (!gives || call.codec != Codec::none) call.output = {{data, count}};
  return group.start(call);
}

Handed reduce(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op, double factor,
              int root, StreamHandle stream) {
  check_reduction(dtype, op);
  check_rank(group.group(), root, "the root");
  const Numbers parts = parts_of(dtype, count);
  Call call{.collective = Collective::reduce,
            .input = {{source, parts.count}},
            .count = parts.count,
            .dtype = parts.dtype,
            .of_caller = dtype,
            .op = op,
            .factor = factor,
            .root = root,
            .stream = stream};
  if (group.group().rank == root) call.output = {{to, parts.count}};
  return group.start(call);
}

Handed all_gather(DeviceGroup& group, Address source, Address data, std::size_t count, DType dtype, StreamHandle stream,
                  const Wanted& wanted) {
  const std::size_t ranks = ranks_of(group);
  Call call{.collective = Collective::all_gather,
            .input = {{source, count}},
            .output = blocks_at(data, count, dtype, ranks),
            .count = count,
            .dtype = unmarked(dtype),
            .of_caller = dtype,
            .stream = stream};
  encode(call, group, wanted, ranks);
  return group.start(call);
}

Handed reduce_scatter(DeviceGroup& group, Address source, Address to, std::size_t count, DType dtype, Op op,
                      double factor, StreamHandle stream, const Wanted& wanted) {
  check_reduction(dtype, op);
  const std::size_t ranks = ranks_of(group);
  const Numbers parts = parts_of(dtype, count);
  Call call{.collective = Collective::reduce_scatter,
            .input = blocks_at(source, parts.count, parts.dtype, ranks),
            .output = {{to, parts.count}},
            .count = parts.count,
            .dtype = parts.dtype,
            .of_caller = dtype,
            .op = op,
            .factor = factor,
            .stream = stream};
  encode(call, group, wanted, ranks);
  return group.start(call);
}

Handed exchange(DeviceGroup& group, Collective collective, std::vector<Block> sends, std::vector<Block> recvs,
                DType dtype, int root, StreamHandle stream) {
  check_exchange(group.group(), collective, sends, recvs, dtype, root);
  if (collective == Collective::all_gather) sends.resize(1);  // they are all the same
  for (std::size_t other = 0; other < ranks_of(group); ++other) {
    if (static_cast<int>(other) == root) continue;
    if (collective == Collective::gather) sends[other] = {};
    if (collective == Collective::scatter) recvs[other] = {};
  }
  return group.start({.collective = collective,
                      .input = std::move(sends),
                      .output = std::move(recvs),
                      .uneven = true,
                      .dtype = unmarked(dtype),
                      .of_caller = dtype,
                      .root = has_root(collective) ? root : -1,
                      .stream = stream});
}

}  // namespace paceline::device
