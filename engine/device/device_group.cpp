#include "device/device_group.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "calibration/device.hpp"
#include "device/part.hpp"
#include "device/parting.hpp"
#include "progress/arguments.hpp"
#include "progress/times.hpp"

namespace paceline::device {
namespace {

std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

DeviceGroup::DeviceGroup(std::shared_ptr<Engine> engine, std::shared_ptr<Group> group, std::shared_ptr<Device> device,
                         PointerCache& pointers)
    : engine_(std::move(engine)),
      group_(std::move(group)),
      device_(std::move(device)),
      pointers_(pointers),
      driver_(device_->driver()),
      shown_(driver_) {
  const Current current(driver_, device_->context());
  neighbours_ = std::make_unique<Neighbours>(*engine_, *group_, *device_, pointers);
  const std::size_t chunk =
      neighbours_->unreachable().empty() ? calibration::kReducedOnHost : calibration::kStagedChunk;
  attempt("a group on a device", [&] {
    staging_ = std::make_unique<Staging>(*engine_, neighbours_->hosts(), driver_, neighbours_->control(), chunk);
    before_ = std::make_unique<Event>(driver_);
  });
}

// The stream need not wait for calls that are not over. If it does not come to its end even so, what it uses must stay.
void DeviceGroup::close() {
  const std::lock_guard only(mutex_);
  if (neighbours_ == nullptr) return;
  try_to([&] {  // or the context is gone, and everything with it
    const Current current(driver_, device_->context());
    neighbours_->leave(calls_);
    {
      const auto lock = engine_->host().enter();
      for (const auto& operation : under_way_) operation->fail({ErrorKind::aborted, "its group was closed"});
    }
    if (!neighbours_->ended(calls_)) {
      std::ignore = staging_.release();
      std::ignore = neighbours_.release();
      return;
    }
    if (window_.length > 0) {
      pointers_.forget(window_.base);
      driver_.free(window_.base);
    }
    before_.reset();
    staging_.reset();
    neighbours_.reset();
  });
}

// Carries out work whose failure the other ranks must hear of.
template <typename Work>
void DeviceGroup::attempt(const std::string& what, Work&& work) {
  try {
    work();
  } catch (const DriverError& error) {
    const std::string reason = what + " failed: " + error.what();
    engine_->abort(*group_, reason);
    throw Failure(ErrorKind::aborted, group_->name_of(group_->rank) + ": " + reason);
  }
}

// Arguments that will not do are the caller's mistake: no rank hears of them.
Memory DeviceGroup::checked(const Call& call) {
  check_reduction(call.dtype, call.op);
  CaptureStatus capture = CaptureStatus::none;
  driver_.check(driver_.stream_capture(call.stream, &capture), "cuStreamIsCapturing");
  if (capture != CaptureStatus::none)
    throw Failure(ErrorKind::invalid, "the stream records a CUDA graph, and a collective cannot be part of one");
  const Memory memory = pointers_.find(call.data);
  if (!memory.on_device() || memory.device != device_->ordinal())
    throw Failure(ErrorKind::invalid, "the buffer is no memory of device " + std::to_string(device_->ordinal()) +
                                          ", which this group works on, but " + name_of(memory.kind) + " memory");
  if (!memory.holds(call.data, call.bytes()))
    throw Failure(ErrorKind::invalid, "the buffer ends outside of its memory");
  return memory;
}

// Words in pinned memory serve one call after the other, see Signals.
void DeviceGroup::make_room() {
  while (!under_way_.empty() && engine_->is_over(*under_way_.front())) under_way_.pop_front();
  if (under_way_.size() < kCalls) return;
  engine_->wait(*under_way_.front(), std::chrono::duration<double>(-1));
  under_way_.pop_front();
}

std::shared_ptr<Pending> DeviceGroup::all_reduce(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (neighbours_ == nullptr) throw Failure(ErrorKind::invalid, "this group was closed");
  const Current current(driver_, device_->context());
  make_room();
  Memory memory;
  const std::string what = std::string(kCollectiveNames[0]) + " on the device";
  attempt(what, [&] { memory = checked(call); });
  last_ = choice(call.bytes());
  std::shared_ptr<DeviceOperation> operation;
  attempt(what, [&] { operation = begin(call, memory); });
  std::shared_ptr<Pending> pending;
  try {
    attempt(what, [&] {
      pending = std::make_shared<Pending>(engine_, device_, operation);
      before_->record(call.stream);
      neighbours_->stream().wait_for(*before_);
      hand_over(call, *operation);
      pending->record(stream());
    });
  } catch (const Failure&) {
    settle(call.stream);
    throw;
  }
  return pending;
}

// A call has failed in the middle. What was handed over may still use the buffer, and the stream comes to its end.
void DeviceGroup::settle(StreamHandle caller) noexcept {
  try_to([&] {
    Batch batch;
    batch.write(neighbours_->control().address_of(neighbours_->control()->finished), calls_);
    batch.submit(driver_, stream());
    before_->record(stream());
    wait_for(driver_, caller, *before_);
  });
}

// From here on the other ranks count on this one.
std::shared_ptr<DeviceOperation> DeviceGroup::begin(const Call& call, const Memory& memory) {
  const std::uint32_t number = call.count == 0 ? 0 : calls_ + 1;
  auto operation = std::make_shared<DeviceOperation>(*engine_, *device_, *neighbours_, *staging_, number);
  operation->what = operation->notice.what = {call.count, -1, Collective::all_reduce, call.dtype, call.op};
  if (number > 0) {
    if (last_.path == Path::host || last_.path == Path::staged)
      operation->chunks = std::make_unique<Staging::Chunks>(staging_->plan(call));
    if (last_.path == Path::two_shot) {
      operation->data = shared_data(call, memory, operation->notice);
      operation->two_shot = std::make_unique<ReduceParameters>();
      operation->two_shot->divisor = call.op == Op::avg ? static_cast<double>(size()) : 1.0;
      neighbours_->control().parameters(number) = {};
    }
  }
  {
    const auto lock = engine_->host().enter();
    operation->id = engine_->host().next_id();
    operation->started = Clock::now();
    operation->deadline = operation->started + on_clock(group_->timeout);
    operation->start(*group_, {});
    engine_->host().add(operation);
  }
  try {
    operation->meet();
  } catch (const Failure& failure) {
    const auto lock = engine_->host().enter();
    operation->fail({failure.kind, failure.what(), failure.culprit});
    throw;
  }
  calls_ = std::max(calls_, number);
  under_way_.push_back(operation);
  return operation;
}

// Returns where others find the data of a two-shot call, and tells them in the notice.
Address DeviceGroup::shared_data(const Call& call, const Memory& memory, Notice& notice) {
  if (memory.kind == Kind::device) {
    notice.shown = shown_.show(memory);
    notice.offset = call.data - memory.base;
    return call.data;
  }
  if (window_.length < call.bytes()) {
    Address fresh = 0;
    driver_.check(driver_.allocate(&fresh, call.bytes()), "cuMemAlloc");
    if (window_.length > 0) {
      // Earlier calls use it, on other ranks too.
      if (!under_way_.empty()) engine_->wait(*under_way_.back(), std::chrono::duration<double>(-1));
      pointers_.forget(window_.base);
      driver_.free(window_.base);
    }
    window_ = pointers_.find(fresh);
    pointers_.add_own(window_);
  }
  notice.shown = shown_.show(window_);
  return window_.base;
}

void DeviceGroup::hand_over(const Call& call, DeviceOperation& operation) {
  if (operation.call() == 0) return;
  switch (last_.path) {
    case Path::one_shot: one_shot(call, operation.call()); break;
    case Path::two_shot: two_shot(call, operation); break;
    case Path::host:
    case Path::staged: staging_->hand_over(*operation.chunks, stream()); break;
  }
  Batch batch;
  batch.write(neighbours_->control().address_of(neighbours_->control()->finished), operation.call());
  batch.submit(driver_, stream());
}

void DeviceGroup::one_shot(const Call& call, std::uint32_t number) {
  const Signals& signals = neighbours_->signals();
  std::uint32_t& before = one_shots_[turn_];
  const std::size_t part = turn_ * calibration::kDeviceOneShot;
  const Address own = neighbours_->scratch(rank()) + part;
  turn_ = 1 - turn_;
  Batch batch;
  if (before != 0) signals.await(batch, Signals::Kind::taken, before);
  before = number;
  batch.submit(driver_, stream());
  if (call.op == Op::premul_sum)
    scale(call, own);
  else
    driver_.check(driver_.copy(own, call.data, call.bytes(), stream()), "cuMemcpyDtoDAsync");
  signals.tell(batch, Signals::Kind::given, number);
  signals.await(batch, Signals::Kind::given, number);
  batch.submit(driver_, stream());
  ReduceParameters parameters{};
  for (std::size_t from = 0; from < size(); ++from) parameters.in[from] = pointer(neighbours_->scratch(from) + part);
  parameters.out[0] = pointer(call.data);
  parameters.inputs = static_cast<std::uint32_t>(size());
  parameters.outputs = 1;
  parameters.count = call.count;
  parameters.divisor = call.op == Op::avg ? static_cast<double>(size()) : 1.0;
  launch(call, parameters, call.count);
  signals.tell(batch, Signals::Kind::taken, number);
  batch.submit(driver_, stream());
}

void DeviceGroup::two_shot(const Call& call, DeviceOperation& operation) {
  const std::uint32_t number = operation.call();
  const Signals& signals = neighbours_->signals();
  Control& control = neighbours_->control();
  const bool moved = operation.data != call.data;
  if (call.op == Op::premul_sum)
    scale(call, operation.data);
  else if (moved)
    driver_.check(driver_.copy(operation.data, call.data, call.bytes(), stream()), "cuMemcpyDtoDAsync");
  Batch batch;
  signals.tell(batch, Signals::Kind::given, number);
  batch.wait(control.address_of(control.prepared(number)), number);
  signals.await(batch, Signals::Kind::given, number);
  batch.submit(driver_, stream());
  ReduceParameters parameters{};
  const Address later = neighbours_->parameters();
  parameters.later = reinterpret_cast<const ReduceParameters*>(later);
  driver_.check(driver_.copy_to_device(later, &control.parameters(number), sizeof parameters, stream()),
                "cuMemcpyHtoDAsync");
  launch(call, parameters, (call.count + size() - 1) / size());
  signals.tell(batch, Signals::Kind::taken, number);
  signals.await(batch, Signals::Kind::taken, number);
  batch.submit(driver_, stream());
  if (moved) driver_.check(driver_.copy(call.data, operation.data, call.bytes(), stream()), "cuMemcpyDtoDAsync");
}

// count: how many elements it combines, which may not be known yet.
void DeviceGroup::launch(const Call& call, ReduceParameters& parameters, std::size_t count) {
  const Op op = call.op == Op::avg || call.op == Op::premul_sum ? Op::sum : call.op;
  ReduceParameters expected{};
  expected.count = count;
  device_->launch(reduce_launch(call.dtype, op, expected, device_->multiprocessors()), &parameters, stream());
}

void DeviceGroup::scale(const Call& call, Address to) {
  ScaleParameters parameters{pointer(call.data), pointer(to), call.count, call.factor};
  device_->launch(scale_launch(call.dtype, parameters, device_->multiprocessors()), &parameters, stream());
}

}  // namespace paceline::device
