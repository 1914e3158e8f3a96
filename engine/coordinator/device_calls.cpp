#include "coordinator/device_calls.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <new>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "coordinator/data_group.hpp"
#include "device/moment.hpp"

namespace paceline {

DeviceCalls::DeviceCalls(std::shared_ptr<Engine> engine, std::shared_ptr<Group> like, std::uint64_t channel,
                         std::function<void()> moved)
    : engine_(std::move(engine)),
      loop_(engine_->host()),
      like_(std::move(like)),
      channel_(channel),
      moved_(std::move(moved)) {}

void DeviceCalls::admit(const std::shared_ptr<device::Moment>& after, const std::shared_ptr<device::Devices>& devices) {
  if (device_ == nullptr) {
    devices_ = devices;
    device_ = after->device();
  } else if (after->device()->ordinal() != device_->ordinal()) {
    throw Failure(ErrorKind::invalid, "these ranks work on device " + std::to_string(device_->ordinal()) +
                                          " here, and the request is on device " +
                                          std::to_string(after->device()->ordinal()));
  }
}

std::shared_ptr<DeviceCall> DeviceCalls::hand_over(std::vector<Carried> carried, std::vector<std::size_t> counts) {
  if (group_ == nullptr) {
    group_ = make_data_group(loop_, channel_, *like_);
    thread_ = std::thread([this] { serve(); });
  }
  const PendingRequest* const first = carried.front().own.get();
  const std::weak_ptr<const Allocate> allocate = first == nullptr ? nullptr : first->allocate;
  for (const Carried& each : carried)
    if (each.own != nullptr) each.own->on_its_device = true;
  auto call = std::make_shared<DeviceCall>(DeviceCall{std::move(carried), device_, std::move(counts), allocate});
  queue_.push_back(call);
  came_.notify_one();
  return call;
}

void DeviceCalls::when_released(const PendingRequest& request, std::function<void()> then) {
  leaving_.push_back({request.after->stream(), std::move(then)});
  came_.notify_one();
}

void DeviceCalls::fail_group(const Error& error) {
  if (group_ != nullptr) loop_.fail_group(*group_, error);
}

void DeviceCalls::leave() {
  left_ = true;
  queue_.clear();
  came_.notify_one();
  if (group_ == nullptr) return;
  if (leaving_.empty()) return loop_.drop_group(*group_);
  const std::string& here = like_->members[static_cast<std::size_t>(like_->rank)].description;
  loop_.fail_group(*group_, {ErrorKind::aborted, like_->name_of(like_->rank) + " has closed its coordinator", here});
}

void DeviceCalls::close() {
  if (loop_.inherited()) return forget_after_fork();
  const std::lock_guard only(closing_);
  if (thread_.joinable()) thread_.join();
  last_spare_.reset();
  if (on_device_ != nullptr && !on_device_->close()) spares_.clear();  // they stay until the process ends
  on_device_.reset();
  if (group_ != nullptr) {
    const auto lock = loop_.enter();
    loop_.drop_group(*group_);
  }
  if (entry_ == nullptr) return;
  device::try_to([&] {
    const device::Current current(device_->driver(), device_->context());
    for (const Spare& each : std::exchange(spares_, {})) {
      devices_->pointers().forget(each.address);
      device_->driver().free(each.address);
    }
    entry_.reset();
  });
}

// The thread does not exist in a child, and the device serves no child: nothing is waited for or given back.
void DeviceCalls::forget_after_fork() {
  new (&came_) std::condition_variable();
  std::ignore = new std::thread(std::move(thread_));
  std::ignore = new device::Handed(std::move(last_spare_));
  std::ignore = on_device_.release();
  std::ignore = entry_.release();
}

void DeviceCalls::serve() {
  auto lock = loop_.enter();
  for (;;) {
    came_.wait(lock, [this] { return left_ || !queue_.empty() || !leaving_.empty(); });
    if (!leaving_.empty()) {
      const Leaving one = std::move(leaving_.front());
      leaving_.pop_front();
      lock.unlock();
      release(one.stream);
      lock = loop_.enter();
      one.then();
      loop_.wake_all();
      continue;
    }
    if (left_) return;
    const auto call = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const std::string& here = like_->members[static_cast<std::size_t>(like_->rank)].description;
    std::vector<Handle> operations;
    Error error;
    try {
      operations = start(*call);
    } catch (const Failure& failure) {
      error = {failure.kind, failure.what(), failure.culprit};
    } catch (const device::DriverError& failure) {
      error = {ErrorKind::aborted, like_->name_of(like_->rank) + ": " + failure.what(), here};
    } catch (const std::bad_alloc&) {
      error = {ErrorKind::aborted, like_->name_of(like_->rank) + " has no memory left in its arena", here};
    }
    lock = loop_.enter();
    call->operations = std::move(operations);
    call->error = std::move(error);
    call->started = true;
    moved_();
  }
}

// Without a context nothing is under way.
void DeviceCalls::release(device::StreamHandle stream) const {
  if (on_device_ == nullptr) return;
  device::try_to([&] { on_device_->finish_before(stream); });
}

// Another call than the first one waits for no rank.
std::vector<Handle> DeviceCalls::start(const DeviceCall& call) {
  if (call.device == nullptr)
    throw Failure(ErrorKind::aborted,
                  like_->name_of(like_->rank) +
                      " has joined before it had anything on a device, and so has none to give zeros on");
  if (on_device_ == nullptr) {
    const device::Current current(device_->driver(), device_->context());
    entry_ = std::make_unique<device::Stream>(device_->driver());
    on_device_ = std::make_unique<device::DeviceGroup>(engine_, group_, device_, devices_->pointers());
  }
  for (const Carried& each : call.carried)
    if (each.own != nullptr) each.own->after->order_before(entry_->get());
  if (call.carried.size() > 1) return {reduce_packed(call)->operation()};
  if (call.carried.front().own == nullptr) return {stand_in(call)->operation()};
  switch (call.carried.front().request->what.collective) {
    case Collective::all_reduce:
    case Collective::broadcast: return {start(call_of(call.carried.front()))->operation()};
    case Collective::reduce_scatter: return reduce_scatter(call);
    case Collective::all_gather: return {gather(call)->operation()};
    case Collective::all_to_all: return {send_to_all(call)->operation()};
    default: throw Failure(ErrorKind::invalid, "a coordinator does not carry out this collective on a device");
  }
}

device::Handed DeviceCalls::start(const CollectiveCall& call) {
  return device::start(*on_device_, call, entry_->get());
}

// Parts of several sizes are reduced one by one to their owners.
std::vector<Handle> DeviceCalls::reduce_scatter(const DeviceCall& call) {
  const auto& counts = call.carried.front().own->counts;
  CollectiveCall whole = call_of(call.carried.front());
  if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
    whole.count = counts.front();
    return {start(whole)->operation()};
  }
  std::vector<Handle> operations;
  const std::byte* part = whole.source;
  for (int owner = 0; const std::size_t count : counts) {
    const CollectiveCall one{.collective = Collective::reduce,
                             .source = part,
                             .target = whole.target,
                             .count = count,
                             .dtype = whole.dtype,
                             .op = whole.op,
                             .root = owner++};
    if (count > 0) operations.push_back(start(one)->operation());
    part += count * size_of(whole.dtype);
  }
  return operations;
}

// What this rank has not submitted, because it has joined, is zeros. The call comes after all earlier ones, and so may
// use the memory in which they were packed.
device::Handed DeviceCalls::reduce_packed(const DeviceCall& call) {
  std::vector<device::Block> blocks;
  std::size_t count = 0;
  for (const Carried& each : call.carried) {
    const std::byte* const data = each.own == nullptr ? nullptr : each.own->call.target;
    blocks.push_back({device::address(data), each.request->what.count});
    count += each.request->what.count;
  }
  const device::Current current(device_->driver(), device_->context());
  CollectiveCall packed = call_of({call.carried.front().request, nullptr});
  packed.target = device::pointer(spare(count * size_of(packed.dtype)));
  packed.count = count;
  last_spare_ = device::start_packed(*on_device_, packed, std::move(blocks), entry_->get());
  return last_spare_;
}

device::Handed DeviceCalls::gather(const DeviceCall& call) {
  const auto& counts = call.counts;
  CollectiveCall one = call_of(call.carried.front());
  one.target = device::pointer(output(call));
  if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
    one.count = counts.front();
  } else {
    const Elements own{const_cast<std::byte*>(one.source), counts[static_cast<std::size_t>(like_->rank)]};
    one.sends.assign(counts.size(), own);
    one.receives = in_a_row(one.target, counts, one.dtype);
  }
  return start(one);
}

device::Handed DeviceCalls::send_to_all(const DeviceCall& call) {
  const PendingRequest& own = *call.carried.front().own;
  CollectiveCall one = call_of(call.carried.front());
  one.sends = in_a_row(const_cast<std::byte*>(one.source), own.counts, one.dtype);
  one.receives = in_a_row(device::pointer(output(call)), call.counts, one.dtype);
  return start(one);
}

// Where what comes belongs. The call is handed over to come after what the entry's stream has to do, and so after
// whoever used the memory before.
device::Address DeviceCalls::output(const DeviceCall& call) {
  if (std::ranges::all_of(call.counts, [](std::size_t count) { return count == 0; })) return 0;
  const auto allocate = call.allocate.lock();
  if (allocate == nullptr) throw Failure(ErrorKind::aborted, "the request is over");
  try {
    return (*allocate)(call.counts, entry_->get());
  } catch (const std::exception& failure) {
    throw Failure(Error{ErrorKind::aborted,
                        like_->name_of(like_->rank) + " has no memory for the outcome of " +
                            call.carried.front().own->description() + ": " + failure.what(),
                        like_->members[static_cast<std::size_t>(like_->rank)].description});
  }
}

// What a rank does that has joined: an all_reduce gets zeros from it, an all_gather nothing. What comes is of no use.
device::Handed DeviceCalls::stand_in(const DeviceCall& call) {
  const device::Driver& driver = device_->driver();
  const device::Current current(driver, device_->context());
  if (last_spare_ != nullptr) last_spare_->order_before(entry_->get());
  CollectiveCall one = call_of(call.carried.front());
  if (one.collective == Collective::all_gather) {
    const std::size_t total = std::accumulate(call.counts.begin(), call.counts.end(), std::size_t{0});
    if (total > 0) {
      one.sends.resize(call.counts.size());
      one.receives = in_a_row(device::pointer(spare(total * size_of(one.dtype))), call.counts, one.dtype);
    }
  } else {
    const std::size_t bytes = one.count * size_of(one.dtype);
    const device::Address zeros = spare(bytes);
    driver.check(driver.fill(zeros, 0, bytes, entry_->get()), "cuMemsetD8Async");
    one.target = device::pointer(zeros);
  }
  last_spare_ = start(one);
  return last_spare_;
}

// Returns memory of the device of so many bytes. The device's context is current.
device::Address DeviceCalls::spare(std::size_t bytes) {
  if (spares_.empty() || spares_.back().bytes < bytes) {
    const device::Driver& driver = device_->driver();
    Spare more{0, std::bit_ceil(std::max(bytes, std::size_t{1}))};
    driver.check(driver.allocate(&more.address, more.bytes), "cuMemAlloc");
    spares_.push_back(more);
    devices_->pointers().add_own(devices_->pointers().find(more.address));
  }
  return spares_.back().address;
}

}  // namespace paceline
