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
  const Request& request = *call.carried.front().request;
  const Fingerprint& what = request.what;
  const PendingRequest& own = *call.carried.front().own;
  device::DeviceGroup& group = *on_device_;
  const device::StreamHandle stream = entry_->get();
  const auto data = device::address(own.data);
  const auto target = device::address(own.target);
  const Wanted wanted = wanted_by(request, own.residual);
  std::vector<Handle> operations;
  const auto add = [&](const device::Handed& handed) { operations.push_back(handed->operation()); };
  switch (what.collective) {
    case Collective::all_reduce:
      add(device::all_reduce(group, data, what.count, what.dtype, what.op, 1, stream, wanted));
      break;
    case Collective::broadcast:
      add(device::broadcast(group, data, what.count, what.dtype, what.root, stream, wanted));
      break;
    case Collective::reduce_scatter: {
      const auto& counts = own.counts;
      if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
        add(device::reduce_scatter(group, data, target, counts.front(), what.dtype, what.op, 1, stream, wanted));
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
    case Collective::all_gather: add(gather(call)); break;
    case Collective::all_to_all: add(send_to_all(call)); break;
    default: throw Failure(ErrorKind::invalid, "a coordinator does not carry out this collective on a device");
  }
  return operations;
}

// What this rank has not handed in, because it has joined, is zeros. The call comes after all earlier ones, and so may
// use the memory in which they were packed.
device::Handed DeviceCalls::reduce_packed(const DeviceCall& call) {
  const Fingerprint& what = call.carried.front().request->what;
  std::vector<device::Block> blocks;
  std::size_t count = 0;
  for (const Carried& each : call.carried) {
    const std::byte* const data = each.own == nullptr ? nullptr : each.own->data;
    blocks.push_back({device::address(data), each.request->what.count});
    count += each.request->what.count;
  }
  const device::Current current(device_->driver(), device_->context());
  const device::Address memory = spare(count * size_of(what.dtype));
  last_spare_ = device::all_reduce(*on_device_, std::move(blocks), memory, what.dtype, what.op, entry_->get());
  return last_spare_;
}

device::Handed DeviceCalls::gather(const DeviceCall& call) {
  const Fingerprint& what = call.carried.front().request->what;
  const auto source = device::address(call.carried.front().own->data);
  const device::Address to = output(call);
  const auto& counts = call.counts;
  if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); }))
    return device::all_gather(*on_device_, source, to, counts.front(), what.dtype, entry_->get());
  const device::Block own{source, counts[static_cast<std::size_t>(like_->rank)]};
  return device::exchange(*on_device_, what.collective, std::vector(counts.size(), own),
                          device::in_a_row(to, counts, what.dtype), what.dtype, -1, entry_->get());
}

device::Handed DeviceCalls::send_to_all(const DeviceCall& call) {
  const Fingerprint& what = call.carried.front().request->what;
  const PendingRequest& own = *call.carried.front().own;
  return device::exchange(*on_device_, what.collective,
                          device::in_a_row(device::address(own.data), own.counts, what.dtype),
                          device::in_a_row(output(call), call.counts, what.dtype), what.dtype, -1, entry_->get());
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
  const Fingerprint& what = call.carried.front().request->what;
  const device::Driver& driver = device_->driver();
  const device::Current current(driver, device_->context());
  if (last_spare_ != nullptr) last_spare_->order_before(entry_->get());
  if (what.collective == Collective::all_gather) {
    const std::size_t total = std::accumulate(call.counts.begin(), call.counts.end(), std::size_t{0});
    const auto blocks = device::in_a_row(spare(total * size_of(what.dtype)), call.counts, what.dtype);
    const std::vector<device::Block> nothing(call.counts.size());
    last_spare_ = total == 0
                      ? device::all_gather(*on_device_, 0, 0, 0, what.dtype, entry_->get())
                      : device::exchange(*on_device_, what.collective, nothing, blocks, what.dtype, -1, entry_->get());
  } else {
    const std::size_t bytes = what.count * size_of(what.dtype);
    const device::Address zeros = spare(bytes);
    driver.check(driver.fill(zeros, 0, bytes, entry_->get()), "cuMemsetD8Async");
    last_spare_ = device::all_reduce(*on_device_, zeros, what.count, what.dtype, what.op, 1, entry_->get(),
                                     wanted_by(*call.carried.front().request));
  }
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
