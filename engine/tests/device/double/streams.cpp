// Streams as threads.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "device/kernels/on_host/run.hpp"
#include "tests/device/double/double.hpp"

using namespace paceline::device;
using namespace paceline::device::fake;

namespace {

constexpr std::chrono::microseconds kLook{50};  // between two looks at a word that a stream waits for

// Waits until the work of a record is over.
void await(EventState& event, std::uint64_t record) {
  std::unique_lock lock(event.mutex);
  event.changed.wait(lock, [&] { return event.done >= record; });
}

void carry_out(const StreamOperation& one) {
  const std::atomic_ref<std::uint32_t> word(*reinterpret_cast<std::uint32_t*>(one.word));
  const auto value = static_cast<std::uint32_t>(one.value);
  if (one.what == MemoryOperation::write) return word.store(value);
  while (static_cast<std::int32_t>(word.load() - value) < 0) std::this_thread::sleep_for(kLook);
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
  if (bytes > 0) stream_of(stream).add([=] { std::memcpy(to, from, bytes); });
}

void* data(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace

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

Result cuEventCreate(EventHandle* event, unsigned) {
  if (const Result wanted = called("cuEventCreate"); wanted != Result::success) return wanted;
  *event = new CUevent_st;
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
  const std::lock_guard lock(event->at->mutex);
  stream_of(stream).add([at = event->at, number = ++event->at->recorded] {
    const std::lock_guard reached(at->mutex);
    at->done = std::max(at->done, number);  // records may be in several streams, and their work over in any order
    at->changed.notify_all();
  });
  return Result::success;
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  if (const Result wanted = called("cuStreamWaitEvent"); wanted != Result::success) return wanted;
  const std::lock_guard lock(event->at->mutex);
  stream_of(stream).add([at = event->at, number = event->at->recorded] { await(*at, number); });
  return Result::success;
}

Result cuStreamBatchMemOp_v2(StreamHandle stream, unsigned count, StreamOperation* all, unsigned) {
  if (const Result wanted = called("cuStreamBatchMemOp"); wanted != Result::success) return wanted;
  for (const StreamOperation& one : std::vector(all, all + count)) stream_of(stream).add([one] { carry_out(one); });
  return Result::success;
}

Result cuStreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  *status = stream_of(stream).captures ? CaptureStatus::active : CaptureStatus::none;
  return called("cuStreamIsCapturing");
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

Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, StreamHandle stream) {
  if (const Result wanted = called("cuMemsetD8Async"); wanted != Result::success) return wanted;
  stream_of(stream).add([=, there = data(to)] { std::memset(there, value, bytes); });
  return Result::success;
}

Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters,
                      void**) {
  if (const Result wanted = called("cuLaunchKernel"); wanted != Result::success) return wanted;
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  const std::vector<std::byte> given(first, first + parameter_bytes(function->name));
  stream_of(stream).add([=, name = function->name, copy = given]() mutable {
    kernel_begins();
    void* all[] = {copy.data()};
    run_on_host(name, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, all);
  });
  return Result::success;
}

}  // extern "C"
