#include "device/device_group.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "calibration/device.hpp"
#include "device/check.hpp"
#include "device/parting.hpp"
#include "device/trials.hpp"
#include "progress/times.hpp"

namespace paceline::device {
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
  const std::size_t chunk = neighbours_->unreachable().empty() ? calibration::kHostChunk : calibration::kStagedChunk;
  attempt("a group on a device", [&] {
    staging_ = std::make_unique<Staging>(*engine_, neighbours_->hosts(), driver_, neighbours_->control(), chunk);
    work_ = std::make_unique<Work>(*device_, *neighbours_, *staging_);
    before_ = std::make_unique<Event>(driver_);
  });
  try {
    limits_ = find();
  } catch (const Failure&) {
    close();
    throw;
  }
  last_ = {Path::host, "nothing was asked for yet"};
}

Limits DeviceGroup::find() {
  if (device_->limits()) return *device_->limits();
  if (!neighbours_->unreachable().empty() || size() == 1) return {};
  attempt("a group on a device", [&] {
    driver_.check(driver_.fill(neighbours_->trial(), 0, calibration::kDeviceTrials.back(), stream()),
                  "cuMemsetD8Async");
  });
  return find_limits([&](Path path, std::size_t bytes) { return timed(path, bytes); },
                     [&](const Timings& mine) {
                       Timings longest = mine;
                       for (const Timings& one : exchanged(*engine_, *group_, mine)) longest.keep_slower(one);
                       return longest;
                     });
}

// From the call until the stream is through, which the host sees in a word. It is not the caller's stream, since that
// may have much else to do.
double DeviceGroup::timed(Path path, std::size_t bytes) {
  constexpr int kLook = 1024;  // the engine knows only of failures before that word tells
  const Block whole{neighbours_->trial(), bytes / sizeof(float)};
  const Call call{
      .input = {whole}, .output = {whole}, .count = whole.count, .dtype = DType::float32, .stream = stream()};
  const auto begin = Clock::now();
  const auto pending = carry_out(call, {path, "this way is timed"});
  for (int again = 1; !neighbours_->control().finished(calls_); ++again) {
    if (again % kLook == 0 && pending->done()) break;
    std::this_thread::yield();
  }
  const std::chrono::duration<double, std::nano> passed = Clock::now() - begin;
  if (pending->done()) pending->wait(std::chrono::seconds(0));
  return std::max(1.0, passed.count());
}

// The stream need not wait for calls that are not over. If it does not come to its end even so, what it uses must stay,
// and so must what other ranks use.
bool DeviceGroup::close() {
  if (engine_->host().inherited()) {  // the device serves no forked child, which gives nothing back
    std::ignore = staging_.release();
    std::ignore = neighbours_.release();
    return false;
  }
  const std::lock_guard only(mutex_);
  if (neighbours_ == nullptr) return left_together_;
  left_together_ = false;
  try_to([&] {  // or the context is gone, and everything with it
    const Current current(driver_, device_->context());
    left_together_ = neighbours_->leave(calls_);
    const auto over = [&] {
      return std::ranges::all_of(under_way_, [&](const auto& operation) { return engine_->is_over(*operation); });
    };
    if (!over()) {
      const auto lock = engine_->host().enter();
      const std::string name = group_->name_of(group_->rank);
      engine_->host().fail_group(*group_, {ErrorKind::aborted, name + " has left the device while a call was under way",
                                           group_->members[rank()].description});
    }
    if (!comes_true([&] { return over() && neighbours_->control().finished(calls_); })) {
      left_together_ = false;
      std::ignore = staging_.release();
      std::ignore = neighbours_.release();
      return;
    }
    if (window_.length > 0 && left_together_) {
      pointers_.forget(window_.base);
      driver_.free(window_.base);
    }
    before_.reset();
    work_.reset();
    staging_.reset();
    neighbours_.reset();
  });
  return left_together_;
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

// Where a call has failed, streams may still be in what it used, which nothing may use again.
void DeviceGroup::check_open(const Call& call) const {
  const auto lock = engine_->host().enter();
  const Error& error = group_->error;
  if (!error) return;
  group_->raised = true;
  const std::string asked = describe(call.fingerprint(), group_->sequence()) + " on the device";
  throw Failure({error.kind, asked + " cannot start: " + error.message, error.culprit}, asked);
}

// Words in pinned memory serve one call after the other, see Signals.
void DeviceGroup::make_room() {
  while (!under_way_.empty() && engine_->is_over(*under_way_.front())) under_way_.pop_front();
  if (under_way_.size() < kCalls) return;
  engine_->wait(*under_way_.front(), std::chrono::duration<double>(-1));
  under_way_.pop_front();
}

std::shared_ptr<Pending> DeviceGroup::start(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (neighbours_ == nullptr) throw Failure(ErrorKind::invalid, "this group was closed");
  const auto machines = machine_first(call);
  return carry_out(call, choose(call, size(), limits_, neighbours_->unreachable(), machines.has_value()),
                   machines ? &*machines : nullptr);
}

// Returns the plan of a call in which the ranks of each machine come first, if it pays, and if it can be done.
std::optional<MachineFirst> DeviceGroup::machine_first(const Call& call) const {
  const std::size_t bytes = call.count * size_of(call.dtype);
  if (!neighbours_->machines_reach() || call.collective != Collective::all_reduce || bytes <= limits_.one_shot)
    return std::nullopt;
  const Plan& plan = neighbours_->hosts().plan_for("all_reduce", std::min(bytes, calibration::kStagedChunk));
  return MachineFirst::of(plan, group_->machines, kMostRanges);
}

std::shared_ptr<Pending> DeviceGroup::carry_out(const Call& call, const Choice& choice, const MachineFirst* machines) {
  const Current current(driver_, device_->context());
  make_room();
  check_open(call);
  const std::string what = std::string(kCollectiveNames[static_cast<std::size_t>(call.collective)]) + " on the device";
  // Arguments that will not do are the caller's mistake: no rank hears of them.
  attempt(what, [&] { check(call, *device_, pointers_); });
  last_ = choice;
  std::shared_ptr<DeviceOperation> operation;
  attempt(what, [&] { operation = begin(call, machines); });
  std::shared_ptr<Pending> pending;
  try {
    attempt(what, [&] {
      pending = std::make_shared<Pending>(engine_, device_, operation, call.stream);
      before_->record(call.stream);
      neighbours_->stream().wait_for(*before_);
      work_->hand_over(call, *operation);
      pending->record(stream());
    });
  } catch (const Failure&) {
    settle(call.stream);
    try_to([&] { engine_->wait(*operation, std::chrono::duration<double>(-1)); });
    throw;
  }
  return pending;
}

void DeviceGroup::finish_before(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (neighbours_ == nullptr) return;
  for (const auto& operation : under_way_)
    try_to([&] { engine_->wait(*operation, std::chrono::duration<double>(-1)); });
  const Current current(driver_, device_->context());
  before_->record(this->stream());
  wait_for(driver_, stream, *before_);
}

// A call has failed in the middle. What was handed over may still use the buffer, and the stream comes to its end. If
// it takes nothing any more, its device has failed, and no kernel works.
void DeviceGroup::settle(StreamHandle caller) noexcept {
  Control& control = neighbours_->control();
  const bool taken = try_to([&] {
    Batch batch;
    batch.write(control.address_of(control->working), 0);
    batch.write(control.address_of(control->finished), calls_);
    batch.submit(driver_, stream());
  });
  if (!taken) control->working.store(0);
  try_to([&] {
    before_->record(stream());
    wait_for(driver_, caller, *before_);
  });
}

// From here on the other ranks count on this one.
std::shared_ptr<DeviceOperation> DeviceGroup::begin(const Call& call, const MachineFirst* machines) {
  const std::uint32_t number = call.empty() ? 0 : calls_ + 1;
  auto operation = std::make_shared<DeviceOperation>(*engine_, *device_, *neighbours_, *staging_, number);
  Notice& notice = operation->notice;
  operation->what = notice.what = call.fingerprint();
  operation->choice = last_;
  for (const auto* blocks : {&call.input, &call.output})
    for (const Block& block : *blocks) notice.longest = std::max<std::uint64_t>(notice.longest, block.count);
  if (number > 0) {
    if (last_.path == Path::host || last_.path == Path::staged)
      operation->chunks = std::make_unique<Staging::Chunks>(staging_->plan(call, notice.longest));
    if (last_.path == Path::two_shot || last_.path == Path::direct || last_.path == Path::by_machine) {
      operation->direct = show(call, notice);
      std::ranges::fill(neighbours_->control().parameters(number), Parameters{});
    }
    if (last_.path == Path::by_machine)
      operation->chunks = std::make_unique<Staging::Chunks>(staging_->plan(operation->direct->call, *machines));
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

}  // namespace paceline::device
