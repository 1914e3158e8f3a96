#include "coordinator/device_calls.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

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

std::shared_ptr<DeviceCall> DeviceCalls::hand_over(RequestPtr request, std::shared_ptr<const PendingRequest> own) {
  if (group_ == nullptr) {
    std::vector<int> peers;
    peers.reserve(like_->members.size());
    for (const Member& member : like_->members) peers.push_back(member.peer);
    group_ = loop_.make_group(channel_, like_->rank, peers, like_->timeout, like_->plans);
    group_->use = Group::Use::data;
    group_->machines = like_->machines;
    group_->codec = like_->codec;
    group_->coded_from = like_->coded_from;
    thread_ = std::thread([this] { serve(); });
  }
  auto call = std::make_shared<DeviceCall>(DeviceCall{std::move(request), std::move(own), device_});
  queue_.push_back(call);
  came_.notify_one();
  return call;
}

void DeviceCalls::fail_group(const Error& error) {
  if (group_ != nullptr) loop_.fail_group(*group_, error);
}

void DeviceCalls::leave() {
  left_ = true;
  queue_.clear();
  came_.notify_one();
  if (group_ != nullptr) loop_.drop_group(*group_);
}

void DeviceCalls::close() {
  const std::lock_guard only(closing_);
  if (thread_.joinable()) thread_.join();
  last_zeros_.reset();
  on_device_.reset();
  if (entry_ == nullptr) return;
  device::try_to([&] {
    const device::Current current(device_->driver(), device_->context());
    for (const Zeros& each : std::exchange(zeros_, {})) {
      devices_->pointers().forget(each.address);
      device_->driver().free(each.address);
    }
    entry_.reset();
  });
}

void DeviceCalls::serve() {
  auto lock = loop_.enter();
  for (;;) {
    came_.wait(lock, [this] { return left_ || !queue_.empty(); });
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
  const Fingerprint& what = call.request->what;
  if (call.own == nullptr) return {give_zeros(what)->operation()};
  const PendingRequest& own = *call.own;
  own.after->order_before(entry_->get());
  device::DeviceGroup& group = *on_device_;
  const device::StreamHandle stream = entry_->get();
  const auto data = device::address(own.data);
  const auto target = device::address(own.target);
  std::vector<Handle> operations;
  const auto add = [&](const device::Handed& handed) { operations.push_back(handed->operation()); };
  switch (what.collective) {
    case Collective::all_reduce:
      add(device::all_reduce(group, data, what.count, what.dtype, what.op, 1, stream));
      break;
    case Collective::broadcast: add(device::broadcast(group, data, what.count, what.dtype, what.root, stream)); break;
    case Collective::reduce_scatter: {
      const auto& counts = own.counts;
      if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
        add(device::reduce_scatter(group, data, target, counts.front(), what.dtype, what.op, 1, stream));
        break;
      }
      device::Address part = data;
      for (int owner = 0; const std::size_t count : counts) {
        if (count > 0) add(device::reduce(group, part, target, count, what.dtype, what.op, 1, owner, stream));
        part += count * size_of(what.dtype);
        ++owner;
      }
      break;
    }
    default: throw Failure(ErrorKind::invalid, "a coordinator does not carry out this collective on a device");
  }
  return operations;
}

// An all-reduce, the only one of these that allows_joined. Its result is of no use here.
device::Handed DeviceCalls::give_zeros(const Fingerprint& what) {
  const device::Driver& driver = device_->driver();
  const device::Current current(driver, device_->context());
  const std::size_t bytes = what.count * size_of(what.dtype);
  if (zeros_.empty() || zeros_.back().bytes < bytes) {
    Zeros more{0, std::bit_ceil(std::max(bytes, std::size_t{1}))};
    driver.check(driver.allocate(&more.address, more.bytes), "cuMemAlloc");
    zeros_.push_back(more);
    devices_->pointers().add_own(devices_->pointers().find(more.address));
  }
  const Zeros& zeros = zeros_.back();
  if (last_zeros_ != nullptr) last_zeros_->order_before(entry_->get());
  driver.check(driver.fill(zeros.address, 0, bytes, entry_->get()), "cuMemsetD8Async");
  last_zeros_ = device::all_reduce(*on_device_, zeros.address, what.count, what.dtype, what.op, 1, entry_->get());
  return last_zeros_;
}

}  // namespace paceline
