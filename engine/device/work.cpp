#include "device/work.hpp"

#include <algorithm>

#include "calibration/device.hpp"

namespace paceline::device {

Work::Work(Device& device, Neighbours& neighbours, Staging& staging)
    : device_(device), driver_(device.driver()), neighbours_(neighbours), staging_(staging) {}

void Work::hand_over(const Call& call, const DeviceOperation& operation) {
  if (operation.call() == 0) return;
  pack(call);
  switch (operation.choice.path) {
    case Path::one_shot: one_shot(call, operation.call()); break;
    case Path::two_shot:
    case Path::direct: direct(call, operation); break;
    case Path::by_machine: by_machine(call, operation); break;
    case Path::host:
    case Path::staged: staging_.hand_over(*operation.chunks, stream()); break;
  }
  unpack(call);
  Batch batch;
  batch.write(neighbours_.control().address_of(neighbours_.control()->finished), operation.call());
  batch.submit(driver_, stream());
}

void Work::pack(const Call& call) {
  if (call.packed.empty()) return;
  Address next = call.input[0].data;
  for (const Block& block : call.packed) {
    const std::size_t bytes = call.bytes(block);
    if (bytes > 0 && block.data == 0) driver_.check(driver_.fill(next, 0, bytes, stream()), "cuMemsetD8Async");
    if (bytes > 0 && block.data != 0)
      driver_.check(driver_.copy(next, block.data, bytes, stream()), "cuMemcpyDtoDAsync");
    next += bytes;
  }
}

void Work::unpack(const Call& call) {
  if (call.packed.empty()) return;
  Address next = call.output[0].data;
  for (const Block& block : call.packed) {
    const std::size_t bytes = call.bytes(block);
    if (bytes > 0 && block.data != 0)
      driver_.check(driver_.copy(block.data, next, bytes, stream()), "cuMemcpyDtoDAsync");
    next += bytes;
  }
}

// A rank's blocks lie one behind the other, and in scratch memory likewise.
void Work::one_shot(const Call& call, std::uint32_t number) {
  const Signals& signals = neighbours_.signals();
  std::uint32_t& before = one_shots_[turn_];
  const std::size_t part = turn_ * calibration::kDeviceOneShot;
  turn_ = 1 - turn_;
  Batch batch;
  if (before != 0) signals.await(batch, Signals::Kind::taken, before);
  before = number;
  batch.submit(driver_, stream());
  if (!call.input.empty())
    move(call.input[0].data, neighbours_.scratch(rank()) + part, call.input.size() * call.count, call);
  signals.tell(batch, Signals::Kind::given, number);
  signals.await(batch, Signals::Kind::given, number);
  batch.submit(driver_, stream());
  const std::size_t own = call.collective == Collective::reduce_scatter ? rank() * call.count * size_of(call.dtype) : 0;
  Parameters parameters{};
  for (std::size_t from = 0; from < size(); ++from)
    parameters.take(call, static_cast<int>(from), neighbours_.scratch(from) + part + own, size(), false);
  launch(call, parameters);
  signals.tell(batch, Signals::Kind::taken, number);
  batch.submit(driver_, stream());
}

void Work::direct(const Call& call, const DeviceOperation& operation) {
  const DeviceOperation::Direct& direct = *operation.direct;
  Address next = direct.window;
  for (const Block& block : call.input) {
    move(block.data, direct.window == 0 ? block.data : next, block.count, call);
    next += call.bytes(block);
  }
  Batch batch = given(operation);
  enter(batch, operation.call());
  if (!call.output.empty()) {
    Parameters parameters = Parameters::at(neighbours_.parameters(), 0, operation.call());
    launch(direct.call, parameters);
  }
  take_back(call, operation);
}

// A rank writes only to the part that is its own before all have combined theirs, and nobody reads that part of its
// buffer. To the others it writes after all have settled.
void Work::by_machine(const Call& call, const DeviceOperation& operation) {
  const Signals& signals = neighbours_.signals();
  const MachineParts& parts = *operation.chunks->parts;
  const Block buffer = operation.direct->call.input[0];
  move(call.input[0].data, buffer.data, buffer.count, call);
  Batch batch = given(operation);
  enter(batch, operation.call());
  const auto kernel = [&](std::size_t index) {
    return Parameters::at(neighbours_.parameters(), index, operation.call());
  };
  std::size_t range = 0;
  for (const auto& [begin, end] : parts.in_buffer(neighbours_.hosts().rank)) {
    Parameters parameters = kernel(range++);
    if (neighbours_.near().size() > 1) reduce(call, end - begin, parameters.reduce);
  }
  leave(batch);
  batch.submit(driver_, stream());
  staging_.hand_over(*operation.chunks, stream());
  signals.tell(batch, Signals::Kind::settled, operation.call());
  signals.await(batch, Signals::Kind::settled, operation.call());
  enter(batch, operation.call());
  std::vector<std::size_t> taken;  // the elements of the longest range that each kernel copies
  std::size_t part = 0;
  for (const int from : neighbours_.near()) {
    if (from == neighbours_.hosts().rank) continue;
    for (const auto& [begin, end] : parts.in_buffer(from)) {
      if (part++ % kMostInputs == 0) taken.push_back(0);
      taken.back() = std::max(taken.back(), end - begin);
    }
  }
  for (std::size_t index = 0; index < taken.size(); ++index) {
    Parameters parameters = kernel(index);
    copy(taken[index] * size_of(call.dtype), parameters.copy);
  }
  take_back(call, operation);
}

// The others may read this rank's memory, and it waits until it may read theirs and knows where that is.
Batch Work::given(const DeviceOperation& operation) const {
  const std::uint32_t number = operation.call();
  const Control& control = neighbours_.control();
  Batch batch;
  neighbours_.signals().tell(batch, Signals::Kind::given, number);
  batch.wait(control.address_of(control.prepared(number)), number);
  neighbours_.signals().await(batch, Signals::Kind::given, number);
  return batch;
}

// Kernels follow that work in memory of other ranks: their hosts see that this stream has come so far, or it sees that
// they have withdrawn the call. See control.hpp.
void Work::enter(Batch& batch, std::uint32_t number) {
  const Control& control = neighbours_.control();
  batch.write(control.address_of(control->working), number);
  batch.submit(driver_, stream());
  const auto complete = control.slot(number);
  driver_.check(driver_.copy_to_device(neighbours_.parameters(), complete.data(), complete.size(), stream()),
                "cuMemcpyHtoDAsync");
}

void Work::leave(Batch& batch) const {
  const Control& control = neighbours_.control();
  batch.write(control.address_of(control->working), 0);
}

// When all have read what they need, an all-reduce copies back what lies in a window.
void Work::take_back(const Call& call, const DeviceOperation& operation) {
  const DeviceOperation::Direct& direct = *operation.direct;
  Batch batch;
  leave(batch);
  neighbours_.signals().tell(batch, Signals::Kind::taken, operation.call());
  neighbours_.signals().await(batch, Signals::Kind::taken, operation.call());
  batch.submit(driver_, stream());
  if (direct.to_all && direct.window != 0)
    driver_.check(driver_.copy(call.output[0].data, direct.window, call.bytes(call.output[0]), stream()),
                  "cuMemcpyDtoDAsync");
}

void Work::move(Address from, Address to, std::size_t count, const Call& call) {
  if (count == 0) return;
  if (call.op == Op::premul_sum) {
    ScaleParameters parameters{pointer(from), pointer(to), count, call.factor};
    device_.launch(scale_launch(call.dtype, parameters, device_.multiprocessors()), &parameters, stream());
  } else if (to != from) {
    driver_.check(driver_.copy(to, from, count * size_of(call.dtype), stream()), "cuMemcpyDtoDAsync");
  }
}

// Starts the kernel that takes what the call gives this rank.
void Work::launch(const Call& call, Parameters& parameters) {
  std::size_t longest = 0;
  for (const Block& block : call.output) longest = std::max(longest, block.count);
  if (call.combines())
    reduce(call, longest, parameters.reduce);
  else
    copy(longest * size_of(call.dtype), parameters.copy);
}

// Both start a kernel on as many threads as so much needs.
void Work::reduce(const Call& call, std::size_t count, ReduceParameters& parameters) {
  if (count == 0) return;
  const Op op = call.op == Op::avg || call.op == Op::premul_sum ? Op::sum : call.op;
  ReduceParameters expected{};
  expected.count = count;
  device_.launch(reduce_launch(call.dtype, op, expected, device_.multiprocessors()), &parameters, stream());
}

void Work::copy(std::size_t bytes, CopyParameters& parameters) {
  if (bytes == 0) return;
  CopyParameters expected{};
  expected.bytes[0] = bytes;
  expected.parts = 1;
  device_.launch(copy_launch(expected, device_.multiprocessors()), &parameters, stream());
}

}  // namespace paceline::device
