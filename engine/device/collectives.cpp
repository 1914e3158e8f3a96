#include "device/collectives.hpp"

#include <utility>

#include "progress/arguments.hpp"

namespace paceline::device {
namespace {

// Sets how what a call gives goes between machines. blocks: of which all of its data consist.
void encode(Call& call, const DeviceGroup& group, const CollectiveCall& given, std::size_t blocks) {
  call.codec = codec_for(group.group(), given, call.count * size_of(call.dtype) * blocks);
  if (call.codec == Codec::none || given.residual == nullptr) return;
  call.residual = blocks_at(address(given.residual), call.count, call.dtype, blocks);
}

std::vector<Block> blocks_of(const std::vector<Elements>& all) {
  std::vector<Block> blocks;
  blocks.reserve(all.size());
  for (const Elements& each : all) blocks.push_back({address(each.data), each.count});
  return blocks;
}

Call exchange(const Group& group, const CollectiveCall& given, Call call) {
  check_exchange(group, given);
  call.input = blocks_of(given.sends);
  call.output = blocks_of(given.receives);
  if (given.collective == Collective::all_gather) call.input.resize(1);  // they are all the same
  for (std::size_t other = 0; other < call.output.size(); ++other) {
    if (static_cast<int>(other) == given.root) continue;
    if (given.collective == Collective::gather) call.input[other] = {};
    if (given.collective == Collective::scatter) call.output[other] = {};
  }
  call.count = 0;
  call.uneven = true;
  call.dtype = unmarked(given.dtype);
  return call;
}

// Returns the call as the device does it. If a broadcast is encoded, the root, too, ends with what the others decode.
Call on_device(const DeviceGroup& group, const CollectiveCall& given, StreamHandle stream) {
  const Group& hosts = group.group();
  const auto ranks = static_cast<std::size_t>(hosts.size());
  const bool is_root = hosts.rank == given.root;
  const Numbers parts = parts_of(given.dtype, given.count);
  const Address source = address(given.given());
  const Address target = address(given.target);
  Call call{.collective = given.collective,
            .count = parts.count,
            .dtype = parts.dtype,
            .of_caller = given.dtype,
            .op = given.op,
            .factor = given.factor,
            .root = given.has_root() ? given.root : -1,
            .stream = stream};
  if (!given.sends.empty()) return exchange(hosts, given, std::move(call));
  if (given.combines()) check_reduction(given.dtype, given.op);
  if (given.has_root()) check_rank(hosts, given.root, "the root");
  const auto one = [&](Address data) { return std::vector<Block>{{data, parts.count}}; };
  const auto each = [&](Address data) { return blocks_at(data, parts.count, parts.dtype, ranks); };
  switch (given.collective) {
    case Collective::all_reduce:
      encode(call, group, given, 1);
      call.input = one(source);
      call.output = one(target);
      return call;
    case Collective::broadcast:
      encode(call, group, given, 1);
      if (is_root) call.input = one(source);
      if (!is_root || call.codec != Codec::none) call.output = one(target);
      return call;
    case Collective::reduce:
      call.input = one(source);
      if (is_root) call.output = one(target);
      return call;
    case Collective::all_gather:
      encode(call, group, given, ranks);
      call.input = one(source);
      call.output = each(target);
      return call;
    case Collective::reduce_scatter:
      encode(call, group, given, ranks);
      call.input = each(source);
      call.output = one(target);
      return call;
    default: throw Failure(ErrorKind::invalid, "this collective is not carried out on a device");
  }
}

}  // namespace

Handed start(DeviceGroup& group, const CollectiveCall& call, StreamHandle stream) {
  return group.start(on_device(group, call, stream));
}

Handed start_packed(DeviceGroup& group, const CollectiveCall& call, std::vector<Block> blocks, StreamHandle stream) {
  Call packed = on_device(group, call, stream);
  packed.packed = std::move(blocks);
  return group.start(packed);
}

}  // namespace paceline::device
