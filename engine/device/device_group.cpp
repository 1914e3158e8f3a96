#include "device/device_group.hpp"

#include <algorithm>
#include <utility>

#include "calibration/device.hpp"
#include "device/parting.hpp"
#include "memory/rounding.hpp"
#include "progress/arguments.hpp"

namespace paceline::device {
namespace {

constexpr std::size_t kPart = 256;  // bytes; parts of a buffer begin at multiples of this

std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

DeviceGroup::DeviceGroup(std::shared_ptr<Engine> engine, std::shared_ptr<Group> group, std::shared_ptr<Device> device,
                         PointerCache& pointers)
    : engine_(std::move(engine)),
      group_(std::move(group)),
      device_(std::move(device)),
      pointers_(pointers),
      driver_(device_->driver()) {
  const Current current(driver_, device_->context());
  staging_ = std::make_unique<Staging>(*engine_, *group_, driver_);
  neighbours_ = std::make_unique<Neighbours>(*engine_, *group_, *device_, pointers);
}

DeviceGroup::~DeviceGroup() {
  try_to([&] {  // or the context is gone, and everything with it
    const Current current(driver_, device_->context());
    neighbours_->leave();
    staging_.reset();
    neighbours_.reset();
  });
}

// Carries out work whose failure the other ranks cannot hear of in a notice any more.
template <typename Work>
void DeviceGroup::attempt(const char* what, Work&& work) {
  try {
    work();
  } catch (const DriverError& error) {
    const std::string reason = std::string(what) + ": " + error.what();
    engine_->abort(*group_, reason);
    throw Failure(ErrorKind::aborted, group_->name_of(group_->rank) + ": " + reason);
  }
}

Notice DeviceGroup::notice_of(const Call& call) {
  Notice mine{};
  mine.what = {call.count, -1, Collective::all_reduce, call.dtype, call.op};
  const Memory memory = pointers_.find(call.data);
  if (!memory.on_device() || memory.device != device_->ordinal())
    mine.wrong.set("the buffer is no memory of device " + std::to_string(device_->ordinal()) +
                   ", which this group works on, but " + name_of(memory.kind) + " memory");
  else if (!memory.holds(call.data, call.bytes()))
    mine.wrong.set("the buffer ends outside of its memory");
  if (memory.kind != Kind::device) return mine;
  mine.shown = own().memory.show(memory);
  mine.offset = call.data - memory.base;
  mine.shows = 1;
  return mine;
}

// Returns all notices. Throws the first thing that is wrong in any of them, alike on all ranks.
std::vector<Notice> DeviceGroup::exchange(const Notice& mine) {
  auto all = exchanged(*engine_, *group_, mine);
  const std::uint32_t sequence = group_->sequence() - 1;
  for (std::size_t from = 0; from < all.size(); ++from) {
    const std::string name = group_->name_of(static_cast<int>(from));
    if (!all[from].wrong.get().empty())
      throw Failure({ErrorKind::aborted,
                     describe(all[from].what, sequence) + " on the device failed: " + name + ": " +
                         std::string(all[from].wrong.get()),
                     group_->members[from].description},
                    describe(mine.what, sequence));
    if (all[from].what != all[0].what)
      throw Failure(
          {ErrorKind::mismatch, "ranks disagree: " + group_->name_of(0) + " calls " + describe(all[0].what, sequence) +
                                    " on the device, " + name + " calls " + describe(all[from].what, sequence)},
          describe(mine.what, sequence));
  }
  return all;
}

std::shared_ptr<Pending> DeviceGroup::all_reduce(const Call& call) {
  check_reduction(call.dtype, call.op);
  const std::lock_guard lock(mutex_);
  const Current current(driver_, device_->context());
  Choice chosen = choice(call.bytes());
  Notice mine{};
  std::shared_ptr<Pending> pending;
  try {
    pending = std::make_shared<Pending>(device_);
    mine = notice_of(call);
    const StreamHandle stream = neighbours_->own().stream.get();
    // The caller's work comes first.
    pending->record(call.stream);
    pending->order_before(stream);
    if (mine.wrong.get().empty() && call.count > 0) {
      if (chosen.path == Path::one_shot) give_one_shot(call);
      if (chosen.path == Path::two_shot) {
        if (call.op == Op::premul_sum && mine.shows != 0) scale(call, call.data);
        own().given.record(stream);
      }
    }
  } catch (const DriverError& error) {
    mine.what = {call.count, -1, Collective::all_reduce, call.dtype, call.op};
    mine.wrong.set(error.what());
  }
  try {
    carry_out(call, std::move(chosen), mine);
    attempt("all-reduce", [&] { pending->record(own().stream.get()); });
  } catch (const Failure&) {
    // What the device has to do may still use the buffer.
    settle(pending.get(), call.stream);
    throw;
  }
  return pending;
}

void DeviceGroup::settle(Pending* pending, StreamHandle stream) noexcept {
  if (pending == nullptr) return;
  try_to([&] {
    pending->record(own().stream.get());
    pending->order_before(stream);
  });
}

void DeviceGroup::carry_out(const Call& call, Choice chosen, const Notice& mine) {
  const auto all = exchange(mine);
  const auto hidden = std::ranges::find(all, 0, &Notice::shows);
  const bool scaled = call.op == Op::premul_sum && chosen.path == Path::two_shot && mine.shows != 0;
  if (chosen.path == Path::two_shot && hidden != all.end())
    chosen = {Path::staged, group_->name_of(static_cast<int>(hidden - all.begin())) +
                                " has its buffer in memory that other processes cannot map"};
  last_ = chosen;
  if (call.count == 0) return;
  switch (chosen.path) {
    case Path::one_shot: attempt("one-shot all-reduce", [&] { one_shot(call); }); break;
    case Path::two_shot: two_shot(call, all); break;
    case Path::host:
    case Path::staged:
      attempt("staged all-reduce", [&] {
        Call rest = call;
        if (scaled) rest.factor = 1;
        staging_->all_reduce(rest, own().stream.get());
      });
      break;
  }
}

void DeviceGroup::give_one_shot(const Call& call) {
  const auto turn = one_shots_ % 2;
  const Address scratch = own().scratch + turn * calibration::kDeviceOneShot;
  const StreamHandle stream = own().stream.get();
  for (const auto& peer : peers())
    if (one_shots_ >= 2 && peer != nullptr) own().stream.wait_for(peer->done[turn]);
  if (call.op == Op::premul_sum) {
    scale(call, scratch);
  } else {
    driver_.check(driver_.copy(scratch, call.data, call.bytes(), stream), "cuMemcpyDtoDAsync");
  }
  own().ready[turn].record(stream);
}

void DeviceGroup::one_shot(const Call& call) {
  const auto turn = one_shots_++ % 2;
  ReduceParameters parameters{};
  for (std::size_t from = 0; from < size(); ++from) {
    const auto& peer = peers()[from];
    if (peer != nullptr) own().stream.wait_for(peer->ready[turn]);
    const Address scratch = peer == nullptr ? own().scratch : peer->scratch;
    parameters.in[from] = pointer(scratch + turn * calibration::kDeviceOneShot);
  }
  parameters.out[0] = pointer(call.data);
  parameters.outputs = 1;
  parameters.count = call.count;
  reduce(call, parameters);
  own().done[turn].record(own().stream.get());
}

void DeviceGroup::two_shot(const Call& call, const std::vector<Notice>& all) {
  const std::size_t element = size_of(call.dtype);
  const std::size_t part = rounded_up((call.bytes() + size() - 1) / size(), kPart);
  const std::size_t begin = std::min(call.bytes(), rank() * part);
  const std::size_t end = std::min(call.bytes(), begin + part);
  Notice outcome = all[rank()];
  try {
    ReduceParameters parameters{};
    for (std::size_t from = 0; from < size(); ++from) {
      Address data = call.data;
      if (from != rank()) {
        own().stream.wait_for(peers()[from]->given);
        data = open_buffer(from, all[from], call.bytes());
      }
      parameters.in[from] = parameters.out[from] = pointer(data + begin);
    }
    parameters.outputs = static_cast<std::uint32_t>(size());
    parameters.count = (end - begin) / element;
    if (parameters.count > 0) reduce(call, parameters);
    own().written.record(own().stream.get());
  } catch (const DriverError& error) {
    outcome.wrong.set(error.what());
  }
  exchange(outcome);
  attempt("two-shot all-reduce", [&] {
    for (const auto& peer : peers())
      if (peer != nullptr) own().stream.wait_for(peer->written);
  });
}

// Returns where the buffer of another rank lies here.
Address DeviceGroup::open_buffer(std::size_t from, const Notice& said, std::size_t bytes) {
  const Memory memory{.base = 0, .length = said.shown.length};
  if (!memory.holds(said.offset, bytes))
    throw DriverError("cuIpcOpenMemHandle", Result::invalid_value, "a buffer that ends outside of its memory");
  return own().memory.open(static_cast<int>(from), said.shown) + said.offset;
}

void DeviceGroup::reduce(const Call& call, ReduceParameters& parameters) {
  parameters.inputs = static_cast<std::uint32_t>(size());
  parameters.divisor = call.op == Op::avg ? static_cast<double>(size()) : 1.0;
  const Op op = call.op == Op::avg || call.op == Op::premul_sum ? Op::sum : call.op;
  device_->launch(reduce_launch(call.dtype, op, parameters, device_->multiprocessors()), &parameters,
                  own().stream.get());
}

void DeviceGroup::scale(const Call& call, Address to) {
  ScaleParameters parameters{pointer(call.data), pointer(to), call.count, call.factor};
  device_->launch(scale_launch(call.dtype, parameters, device_->multiprocessors()), &parameters, own().stream.get());
}

}  // namespace paceline::device
