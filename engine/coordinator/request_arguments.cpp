#include "coordinator/request_arguments.hpp"

#include <memory>
#include <numeric>
#include <string>

#include "device/check.hpp"
#include "policy/entry.hpp"
#include "progress/collectives.hpp"

namespace paceline {

namespace {

// Returns whether ranks may bring different amounts.
bool is_ragged(const CollectiveCall& call) {
  return call.collective == Collective::all_gather || call.collective == Collective::all_to_all;
}

}  // namespace

Fingerprint RequestArguments::what() const {
  Fingerprint found = call.fingerprint();
  if (is_ragged(call)) found.count = 0;
  found.codec = call.codec.value_or(Codec::none);
  return found;
}

void RequestArguments::check(int rank, int ranks) const {
  const auto bad = [&](const std::string& sentence) {
    throw Failure(ErrorKind::invalid, '"' + std::string(name) + "\": " + sentence);
  };
  if (name.empty()) bad("a request needs a name");
  if (const std::size_t bytes = name.size() + shape.size(); bytes > kLongestName)
    throw Failure(ErrorKind::invalid, "the request \"" + std::string(name.substr(0, 40)) +
                                          "...\" has a name and shape of " + std::to_string(bytes) +
                                          " bytes; at most " + std::to_string(kLongestName) + " are possible");
  if (call.given() == nullptr && call.count > 0) bad("the buffer is null but holds elements");
  if (call.combines() && (call.op == Op::premul_sum || !supports(call.dtype, call.op)))
    bad(std::string(kOpNames[static_cast<std::size_t>(call.op)]) + " is not defined for " +
        std::string(name_of(call.dtype)));
  if ((prescale != 1 || postscale != 1) && !is_float(call.dtype))
    bad(std::string(name_of(call.dtype)) + " cannot be scaled: only floats can");
  const Codec codec = call.codec.value_or(Codec::none);
  if (codec != Codec::none)
    if (const std::string why = cannot_encode(codec, call.dtype, call.op); !why.empty()) bad(why);
  if (call.residual != nullptr && (codec == Codec::none || call.collective != Collective::all_reduce))
    bad("only an all_reduce with a codec has a residual");
  if (call.residual != nullptr && call.dtype != DType::float32) bad("a residual keeps what is lost of float32");
  if (on_device) {
    if (call.collective == Collective::barrier) bad("a barrier has no memory on a device");
    if (is_ragged(call) && allocate == nullptr) bad("on a device somebody must allocate its output");
    if (prescale != 1 || postscale != 1) bad("what lies on a device is not scaled by a request");
  }
  if (call.collective == Collective::broadcast && (call.root < 0 || call.root >= ranks))
    bad("the root must be a rank from 0 to " + std::to_string(ranks - 1) + ", got " + std::to_string(call.root));
  if (call.collective != Collective::all_to_all && call.collective != Collective::reduce_scatter) return;
  std::size_t total = 0;
  for (const std::size_t part : counts) total += part;
  if (counts.size() != static_cast<std::size_t>(ranks) || total != call.count)
    bad("counts must be " + std::to_string(ranks) + " numbers that add up to " + std::to_string(call.count));
  if (call.collective == Collective::reduce_scatter && call.target == nullptr &&
      counts[static_cast<std::size_t>(rank)] > 0)
    bad("the output is null but this rank's part holds elements");
  if (call.collective != Collective::reduce_scatter || on_device) return;
  const std::size_t width = size_of(call.dtype);
  const std::size_t before = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  const std::size_t own = counts[static_cast<std::size_t>(rank)] * width;
  const std::byte* const end = call.source + call.count * width;
  if (own > 0 && call.target != call.source + before * width && call.target < end && call.source < call.target + own)
    bad("input and output overlap; they must be apart, or the output this rank's own part of the input");
}

std::shared_ptr<device::Moment> RequestArguments::moment(int rank) const {
  if (!on_device) return nullptr;
  const auto device = on_device->devices->get(on_device->ordinal);
  device::Call there{
      .input = {{device::address(call.given()), call.count}}, .dtype = call.dtype, .stream = on_device->stream};
  if (call.collective == Collective::reduce_scatter && call.target != nullptr)
    there.output = {{device::address(call.target), counts[static_cast<std::size_t>(rank)]}};
  if (call.residual != nullptr) there.residual = {{device::address(call.residual), call.count}};
  {
    const device::Current current(device->driver(), device->context());
    device::check(there, *device, on_device->devices->pointers());
  }
  auto now = std::make_shared<device::Moment>(device);
  now->record(on_device->stream);
  return now;
}

RequestPtr RequestArguments::request(const RequestPtr& last) const {
  const Fingerprint agreed = what();
  const std::uint64_t bytes = call.count * size_of(call.dtype);
  if (last != nullptr && last->what == agreed && last->bytes == bytes && last->shape == shape &&
      same_factor(last->prescale, prescale) && same_factor(last->postscale, postscale) && last->priority == priority &&
      last->bundle == bundle && last->on_device == on_device.has_value())
    return last;
  return std::make_shared<const Request>(Request{std::string(name), agreed, std::string(shape), bytes, prescale,
                                                 postscale, priority, bundle, on_device.has_value()});
}

}  // namespace paceline
