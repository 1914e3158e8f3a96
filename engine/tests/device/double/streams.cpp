// Streams as threads, and events as counters that other processes see.
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "device/kernels/on_host/run.hpp"
#include "tests/device/double/double.hpp"

using namespace paceline::device;
using namespace paceline::device::fake;

namespace {

constexpr long kLook = 20'000'000;  // nanoseconds between two looks whether the process of an event is alive

bool alive(int pidfd) {
  if (pidfd < 0) return true;
  pollfd one{pidfd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 0;
}

void ring(EventState& event) {
  event.bell.fetch_add(1);
  ::syscall(SYS_futex, &event.bell, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

// The records of an event may be in several streams, and their work over in any order.
void reach(EventState& event, std::uint64_t record) {
  std::uint64_t done = event.done.load();
  while (done < record && !event.done.compare_exchange_weak(done, record)) {
  }
}

// Waits until the work of a record is over. What a process had to do dies with it.
void await(const EventMemory& memory, std::uint64_t record) {
  EventState& event = memory.state();
  while (true) {
    const std::uint32_t bell = event.bell.load();
    if (event.done.load() >= record || !alive(memory.owner)) return;
    const timespec look{0, kLook};
    ::syscall(SYS_futex, &event.bell, FUTEX_WAIT, bell, &look, nullptr, 0);
  }
}

void run(CUstream_st* stream) {
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(lock, [&] { return stream->ends || !stream->work.empty(); });
    if (stream->work.empty()) break;
    const auto one = std::move(stream->work.front());
    stream->work.pop_front();
    stream->busy = true;
    lock.unlock();
    one();
    lock.lock();
    stream->busy = false;
    stream->changed.notify_all();
  }
  lock.unlock();
  delete stream;
}

CUstream_st* make_stream() {
  auto* stream = new CUstream_st;
  std::thread(run, stream).detach();
  return stream;
}

void copy_later(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  stream_of(stream).add([=] { std::memcpy(to, from, bytes); });
}

void* data(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace

EventMemory::~EventMemory() {
  if (owner >= 0) ::close(owner);
  close_shared(memory);
}

void CUstream_st::add(std::function<void()> one) {
  const std::lock_guard lock(mutex);
  work.push_back(std::move(one));
  changed.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return work.empty() && !busy; });
}

namespace paceline::device::fake {

std::size_t parameter_bytes(std::string_view kernel) {
  if (kernel.starts_with("paceline_reduce_")) return sizeof(ReduceParameters);
  if (kernel.starts_with("paceline_scale_")) return sizeof(ScaleParameters);
  return kernel == "paceline_copy" ? sizeof(CopyParameters) : 0;
}

CUstream_st& stream_of(StreamHandle handle) {
  static CUstream_st* const usual = make_stream();
  return reinterpret_cast<std::uintptr_t>(handle) <= 2 ? *usual : *handle;
}

}  // namespace paceline::device::fake

extern "C" {

Result cuStreamCreate(StreamHandle* stream, unsigned) {
  if (const Result wanted = called("cuStreamCreate"); wanted != Result::success) return wanted;
  *stream = make_stream();
  const std::lock_guard lock(state().mutex);
  ++state().streams;
  return Result::success;
}

// The thread does what is left and then ends.
Result cuStreamDestroy_v2(StreamHandle stream) {
  if (const Result wanted = called("cuStreamDestroy"); wanted != Result::success) return wanted;
  {
    const std::lock_guard lock(stream->mutex);
    stream->ends = true;
    stream->changed.notify_all();
  }
  const std::lock_guard lock(state().mutex);
  --state().streams;
  return Result::success;
}

Result cuStreamSynchronize(StreamHandle stream) {
  if (const Result wanted = called("cuStreamSynchronize"); wanted != Result::success) return wanted;
  stream_of(stream).drain();
  return Result::success;
}

Result cuEventCreate(EventHandle* event, unsigned flags) {
  if (const Result wanted = called("cuEventCreate"); wanted != Result::success) return wanted;
  auto one = std::make_unique<CUevent_st>();
  one->at->memory = make_shared(sizeof(EventState));
  if (one->at->memory.data == nullptr) return Result::out_of_memory;
  one->flags = flags;
  one->at->state().owner = ::getpid();
  *event = one.release();
  const std::lock_guard lock(state().mutex);
  ++state().events;
  return Result::success;
}

Result cuEventDestroy_v2(EventHandle event) {
  if (const Result wanted = called("cuEventDestroy"); wanted != Result::success) return wanted;
  delete event;
  const std::lock_guard lock(state().mutex);
  --state().events;
  return Result::success;
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  if (const Result wanted = called("cuEventRecord"); wanted != Result::success) return wanted;
  const std::uint64_t number = ++event->at->state().recorded;
  stream_of(stream).add([at = event->at, number] {
    reach(at->state(), number);
    ring(at->state());
  });
  return Result::success;
}

Result cuEventQuery(EventHandle event) {
  if (const Result wanted = called("cuEventQuery"); wanted != Result::success) return wanted;
  const EventState& at = event->at->state();
  return at.done.load() >= at.recorded.load() ? Result::success : Result::not_ready;
}

Result cuEventSynchronize(EventHandle event) {
  if (const Result wanted = called("cuEventSynchronize"); wanted != Result::success) return wanted;
  await(*event->at, event->at->state().recorded.load());
  return Result::success;
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  if (const Result wanted = called("cuStreamWaitEvent"); wanted != Result::success) return wanted;
  const std::uint64_t number = event->at->state().recorded.load();
  stream_of(stream).add([at = event->at, number] { await(*at, number); });
  return Result::success;
}

Result cuIpcGetEventHandle(IpcHandle* handle, EventHandle event) {
  if (const Result wanted = called("cuIpcGetEventHandle"); wanted != Result::success) return wanted;
  if ((event->flags & kEventInterprocess) == 0) return Result::invalid_value;
  *handle = handle_of(event->at->memory);
  return Result::success;
}

Result cuIpcOpenEventHandle(EventHandle* event, IpcHandle handle) {
  if (const Result wanted = called("cuIpcOpenEventHandle"); wanted != Result::success) return wanted;
  auto one = std::make_unique<CUevent_st>();
  if (const Result result = open_shared(handle, one->at->memory); result != Result::success) return result;
  one->at->owner = static_cast<int>(::syscall(SYS_pidfd_open, one->at->state().owner.load(), 0));
  *event = one.release();
  const std::lock_guard lock(state().mutex);
  ++state().events;
  return Result::success;
}

Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, StreamHandle stream) {
  if (const Result wanted = called("cuMemcpyDtoHAsync"); wanted != Result::success) return wanted;
  copy_later(stream, to, data(from), bytes);
  return Result::success;
}

Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, StreamHandle stream) {
  if (const Result wanted = called("cuMemcpyHtoDAsync"); wanted != Result::success) return wanted;
  copy_later(stream, data(to), from, bytes);
  return Result::success;
}

Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, StreamHandle stream) {
  if (const Result wanted = called("cuMemcpyDtoDAsync"); wanted != Result::success) return wanted;
  copy_later(stream, data(to), data(from), bytes);
  return Result::success;
}

Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters,
                      void**) {
  if (const Result wanted = called("cuLaunchKernel"); wanted != Result::success) return wanted;
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  const std::vector<std::byte> given(first, first + parameter_bytes(function->name));
  stream_of(stream).add([=, name = function->name, copy = given]() mutable {
    void* all[] = {copy.data()};
    run_on_host(name, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, all);
  });
  return Result::success;
}

}  // extern "C"
