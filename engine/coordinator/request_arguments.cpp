#include "coordinator/request_arguments.hpp"

#include <memory>
#include <numeric>
#include <string>

#include "device/check.hpp"
#include "policy/entry.hpp"
#include "progress/collectives.hpp"

namespace paceline {

void RequestArguments::check(int rank, int ranks) const {
  const auto bad = [&](const std::string& sentence) {
    throw Failure(ErrorKind::invalid, '"' + std::string(name) + "\": " + sentence);
  };
  if (name.empty()) bad("a request needs a name");
  if (const std::size_t bytes = name.size() + shape.size(); bytes > kLongestName)
    throw Failure(ErrorKind::invalid, "the request \"" + std::string(name.substr(0, 40)) +
                                          "...\" has a name and shape of " + std::to_string(bytes) +
                                          " bytes; at most " + std::to_string(kLongestName) + " are possible");
  if (data == nullptr && count > 0) bad("the buffer is null but holds elements");
  const bool reduces = what.collective == Collective::all_reduce || what.collective == Collective::reduce_scatter;
  if (reduces && (what.op == Op::premul_sum || !supports(what.dtype, what.op)))
    bad(std::string(kOpNames[static_cast<std::size_t>(what.op)]) + " is not defined for " +
        std::string(name_of(what.dtype)));
  if ((prescale != 1 || postscale != 1) && !is_float(what.dtype))
    bad(std::string(name_of(what.dtype)) + " cannot be scaled: only floats can");
  if (what.codec != Codec::none)
    if (const std::string why = cannot_encode(what.codec, what.dtype, what.op); !why.empty()) bad(why);
  if (residual != nullptr && (what.codec == Codec::none || what.collective != Collective::all_reduce))
    bad("only an all_reduce with a codec has a residual");
  if (residual != nullptr && what.dtype != DType::float32) bad("a residual keeps what is lost of float32");
  if (on_device) {
    if (what.collective == Collective::barrier) bad("a barrier has no memory on a device");
    const bool ragged = what.collective == Collective::all_gather || what.collective == Collective::all_to_all;
    if (ragged && allocate == nullptr) bad("on a device somebody must allocate its output");
    if (prescale != 1 || postscale != 1) bad("what lies on a device is not scaled by a request");
  }
  if (what.collective == Collective::broadcast && (what.root < 0 || what.root >= ranks))
    bad("the root must be a rank from 0 to " + std::to_string(ranks - 1) + ", got " + std::to_string(what.root));
  if (what.collective != Collective::all_to_all && what.collective != Collective::reduce_scatter) return;
  std::size_t total = 0;
  for (const std::size_t part : counts) total += part;
  if (counts.size() != static_cast<std::size_t>(ranks) || total != count)
    bad("counts must be " + std::to_string(ranks) + " numbers that add up to " + std::to_string(count));
  if (what.collective == Collective::reduce_scatter && target == nullptr && counts[static_cast<std::size_t>(rank)] > 0)
    bad("the output is null but this rank's part holds elements");
  if (what.collective != Collective::reduce_scatter || on_device) return;
  const std::size_t width = size_of(what.dtype);
  const std::size_t before = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  const std::size_t own = counts[static_cast<std::size_t>(rank)] * width;
  if (own > 0 && target != data + before * width && target < data + count * width && data < target + own)
    bad("input and output overlap; they must be apart, or the output this rank's own part of the input");
}

std::shared_ptr<device::Moment> RequestArguments::moment(int rank) const {
  if (!on_device) return nullptr;
  const auto device = on_device->devices->get(on_device->ordinal);
  device::Call call{.input = {{device::address(data), count}}, .dtype = what.dtype, .stream = on_device->stream};
  if (target != nullptr) call.output = {{device::address(target), counts[static_cast<std::size_t>(rank)]}};
  if (residual != nullptr) call.residual = {{device::address(residual), count}};
  {
    const device::Current current(device->driver(), device->context());
    device::check(call, *device, on_device->devices->pointers());
  }
  auto now = std::make_shared<device::Moment>(device);
  now->record(on_device->stream);
  return now;
}

RequestPtr RequestArguments::request(const RequestPtr& last) const {
  const std::uint64_t bytes = count * size_of(what.dtype);
  if (last != nullptr && last->what == what && last->bytes == bytes && last->shape == shape &&
      same_factor(last->prescale, prescale) && same_factor(last->postscale, postscale) && last->priority == priority &&
      last->bundle == bundle && last->on_device == on_device.has_value())
    return last;
  return std::make_shared<const Request>(Request{std::string(name), what, std::string(shape), bytes, prescale,
                                                 postscale, priority, bundle, on_device.has_value()});
}

}  // namespace paceline
