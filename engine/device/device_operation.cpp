#include "device/device_operation.hpp"

#include <algorithm>
#include <map>

#include "calibration/device.hpp"
#include "device/parting.hpp"

namespace paceline::device {

DeviceOperation::DeviceOperation(Engine& engine, Device& device, Neighbours& neighbours, Staging& staging,
                                 std::uint32_t call)
    : engine_(engine),
      device_(device),
      neighbours_(neighbours),
      staging_(staging),
      call_(call),
      notices_(static_cast<std::size_t>(neighbours.hosts().size())) {
  probes = false;  // the meeting does
}

void DeviceOperation::meet() {
  Handle meeting =
      paceline::start(engine_, *group, gather_bytes(&notice, notices_.data(), sizeof(Notice)), Mode::async);
  const auto lock = engine_.host().enter();
  sequence = meeting->sequence;
  meeting_ = std::move(meeting);
  if (!over()) engine_.host().step_now(*this);
}

std::string DeviceOperation::description() const {
  return describe(what, sequence) + " on the device by " + name_of(choice.path) + " (" + choice.why + ")";
}

bool DeviceOperation::step() {
  if (phase_ == Phase::withdrawing) {
    look_later();
    if (neighbours_.others_work(call_) && Clock::now() < withdrawal_.latest) return false;
    Operation::group_failed(withdrawal_.error);
    return true;
  }
  if (trouble_ || meeting_ == nullptr) return false;
  try {
    return advance();
  } catch (const DriverError& error) {
    trouble_ = {ErrorKind::aborted, group->name_of(group->rank) + ": " + description() + ": " + error.what(),
                group->members[static_cast<std::size_t>(group->rank)].description};
  } catch (const Failure& failure) {
    trouble_ = {failure.kind, failure.what(), failure.culprit};
  }
  return true;
}

bool DeviceOperation::advance() {
  bool moved = false;
  if (phase_ == Phase::meeting) {
    if (!meeting_->over()) return false;
    if (meeting_->state() == State::failed) {
      trouble_ = meeting_->error();
      return true;
    }
    agree();
    if (trouble_) return true;
    phase_ = chunks != nullptr ? Phase::serving : Phase::device;
    if (direct != nullptr) complete_parameters();
    if (trouble_) return true;
    moved = true;
  }
  if (phase_ == Phase::doubting && Clock::now() >= doubt_.said_at) {
    trouble_ = doubt_.error;
    return true;
  }
  if (phase_ == Phase::serving) {
    moved |= staging_.advance(*chunks, trouble_);
    if (trouble_) return true;
    if (chunks->over()) phase_ = Phase::device;
  }
  if (phase_ == Phase::device && finished()) {
    phase_ = Phase::ended;
    return true;
  }
  look_later();
  return moved;
}

// All ranks see the same notices, and say the same of them.
void DeviceOperation::agree() {
  const Fingerprint& first = notices_[0].what;
  for (std::size_t from = 1; from < notices_.size() && !trouble_; ++from)
    if (notices_[from].what != first)
      trouble_ = {ErrorKind::mismatch, "ranks disagree: " + group->name_of(0) + " calls " + describe(first, sequence) +
                                           " on the device, " + group->name_of(static_cast<int>(from)) + " calls " +
                                           describe(notices_[from].what, sequence)};
  if (chunks == nullptr) return;
  for (const Notice& said : notices_) chunks->longest = std::max<std::size_t>(chunks->longest, said.longest);
}

void DeviceOperation::doubt(int rank, const DriverError& error) {
  phase_ = Phase::doubting;
  doubt_ = {rank,
            {ErrorKind::aborted,
             group->name_of(group->rank) + ": " + description() + ": the memory of " + group->name_of(rank) + ": " +
                 error.what(),
             group->members[static_cast<std::size_t>(rank)].description},
            Clock::now() + calibration::kDeathIsHeard};
}

// The kernels wait for these on the stream: see work.hpp.
void DeviceOperation::complete_parameters() {
  const Current current(device_.driver(), device_.context());
  Control& control = neighbours_.control();
  neighbours_.memory().close_freed([&](std::uint32_t call) { return control.finished(call); });
  const std::span<Parameters> parameters = control.parameters(call_);
  std::vector<Parameters> complete(parameters.size());
  if (!(chunks != nullptr ? complete_by_machine(complete) : complete_direct(complete))) return;
  std::ranges::copy(complete, parameters.begin());
  control.prepared(call_).store(call_);
}

bool DeviceOperation::complete_direct(std::span<Parameters> parameters) {
  const Call& call = direct->call;
  for (int from = 0; from < group->size(); ++from) {
    const std::size_t bytes = call.bytes(call.taken_from(from));
    const Notice& said = notices_[static_cast<std::size_t>(from)];
    const auto there = find(from, said.given[static_cast<std::size_t>(group->rank)], bytes);
    if (!there) return false;
    if (bytes > 0) parameters[0].take(call, from, *there, notices_.size(), direct->to_all);
  }
  return true;
}

// Every rank shows all of its buffer.
bool DeviceOperation::complete_by_machine(std::span<Parameters> parameters) {
  const Call& call = direct->call;
  const std::size_t width = size_of(call.dtype);
  std::map<int, Address> buffers;
  for (const int from : neighbours_.near()) {
    const auto there = find(from, notices_[static_cast<std::size_t>(from)].given[0], call.bytes(call.input[0]));
    if (!there) return false;
    buffers[from] = *there;
  }
  const Address mine = buffers[group->rank];
  std::size_t range = 0;
  for (const auto& [begin, end] : chunks->parts->in_buffer(group->rank)) {
    ReduceParameters& reduce = parameters[range++].reduce;
    for (const auto& [from, there] : buffers) reduce.in[reduce.inputs++] = pointer(there + begin * width);
    reduce.out[reduce.outputs++] = pointer(mine + begin * width);
    reduce.count = end - begin;
    reduce.divisor = 1;
  }
  std::size_t part = 0;
  for (const auto& [from, there] : buffers) {
    if (from == group->rank) continue;
    for (const auto& [begin, end] : chunks->parts->in_buffer(from)) {
      CopyParameters& copy = parameters[part++ / kMostInputs].copy;
      copy.from[copy.parts] = pointer(there + begin * width);
      copy.to[copy.parts] = pointer(mine + begin * width);
      copy.bytes[copy.parts++] = (end - begin) * width;
    }
  }
  return true;
}

std::optional<Address> DeviceOperation::find(int from, const Part& part, std::size_t bytes) {
  const Notice& said = notices_[static_cast<std::size_t>(from)];
  if (part.size() != bytes) {
    trouble_ = {ErrorKind::mismatch, group->name_of(from) + " sent " + std::to_string(part.size()) + " bytes in " +
                                         description() + ", " + group->name_of(group->rank) + " expects " +
                                         std::to_string(bytes)};
    return std::nullopt;
  }
  if (bytes == 0) return 0;
  if (from == group->rank) return direct->base + part.begin;
  try {
    if (part.begin > part.end || part.end > said.shown.length)
      throw DriverError("cuIpcOpenMemHandle", Result::invalid_value, "a buffer that ends outside of its memory");
    return neighbours_.memory().open(from, said.shown, call_) + part.begin;
  } catch (const DriverError& error) {
    doubt(from, error);
    return std::nullopt;
  }
}

// Nobody rings when the device has come so far. To look again after a part of the time that it has taken already adds
// no more than that part.
void DeviceOperation::look_later() {
  wake = phase_ == Phase::doubting ? doubt_.said_at : Clock::time_point::max();
  if (phase_ == Phase::meeting || phase_ == Phase::doubting) return;
  const auto now = Clock::now();
  if (phase_ != Phase::withdrawing && now >= deadline && missing().empty()) {
    trouble_ = {ErrorKind::timeout, group->name_of(group->rank) + ": the device has not finished the work before " +
                                        description() + " in time"};
    return;
  }
  if (phase_ == Phase::serving && chunks->serving != nullptr) return;
  const Clock::duration part = (now - started) / calibration::kDeviceLookPart;
  wake = now + std::clamp<Clock::duration>(part, calibration::kDeviceLook, calibration::kLongestDeviceLook);
}

bool DeviceOperation::has_work() const {
  switch (phase_) {
    case Phase::meeting: return meeting_ != nullptr && meeting_->over();
    case Phase::doubting: return Clock::now() >= doubt_.said_at;
    case Phase::serving: return staging_.has_work(*chunks);
    case Phase::device: return finished();
    case Phase::withdrawing: return !neighbours_.others_work(call_);
    case Phase::ended: return true;
  }
  return true;
}

std::vector<int> DeviceOperation::missing() const {
  if (phase_ == Phase::withdrawing) return {};
  if (phase_ == Phase::meeting) return meeting_ == nullptr ? std::vector<int>() : meeting_->missing();
  const bool serving = phase_ == Phase::serving;
  if (serving && chunks->serving != nullptr) return chunks->serving->missing();
  std::vector<int> ranks;
  if (call_ == 0 || (direct == nullptr && (chunks != nullptr || !neighbours_.unreachable().empty()))) return ranks;
  for (const int near : neighbours_.near()) {
    const auto from = static_cast<std::size_t>(near);
    const Signals& signals = neighbours_.signals();
    const bool heard = signals.heard(from, Signals::Kind::given, call_) &&
                       (direct == nullptr || serving || signals.heard(from, Signals::Kind::taken, call_));
    if (!heard) ranks.push_back(near);
  }
  return ranks;
}

std::vector<int> DeviceOperation::absent() const {
  return phase_ == Phase::meeting && meeting_ != nullptr ? meeting_->absent() : missing();
}

// Whether the device is through, and no rank has let it go on without its part.
bool DeviceOperation::finished() const {
  if (call_ == 0) return true;
  return neighbours_.control().finished(call_) && !(reaches_others() && neighbours_.withdrawn(call_));
}

void DeviceOperation::group_failed(const Error& error) {
  if (over() || phase_ == Phase::withdrawing) return;
  withdraw(error);
  if (!reaches_others() || !neighbours_.others_work(call_)) return Operation::group_failed(error);
  phase_ = Phase::withdrawing;
  withdrawal_ = {error, Clock::now() + calibration::kKernelEnds};
  trouble_ = {};
  deadline = Clock::time_point::max();
  look_later();
}

// The host does nothing more for the call, and no other rank begins anything.
void DeviceOperation::withdraw(const Error& error) {
  if (call_ == 0) return;
  if (chunks != nullptr) engine_.host().fail_group(neighbours_.hosts(), error);
  if (reaches_others() && !neighbours_.control().finished(call_)) neighbours_.withdraw(call_);
}

// The stream goes on without the others: nothing waits for ever, and what it leaves in the buffers is of no use. Where
// the group is not there any more when other ranks are through, that is waited for here.
void DeviceOperation::let_go(const Error& error) {
  if (call_ == 0) return;
  withdraw(error);
  if (chunks != nullptr) staging_.release(*chunks);
  if (!reaches_others()) return;
  if (phase_ != Phase::withdrawing) comes_true([this] { return !neighbours_.others_work(call_); });
  Control& control = neighbours_.control();
  if (direct != nullptr && control.prepared(call_).load() != call_) control.prepared(call_).store(call_);
  neighbours_.signals().release(call_);
}

}  // namespace paceline::device
