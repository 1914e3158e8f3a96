#include "device/staging.hpp"

#include <algorithm>
#include <thread>

#include "calibration/device.hpp"
#include "memory/rounding.hpp"

namespace paceline::device {
namespace {

constexpr std::size_t kSlots = 2;
constexpr std::size_t kPage = 4096;  // bytes

}  // namespace

Pinned::Pinned(const Driver& driver, const std::shared_ptr<Arena>& arena, std::size_t bytes)
    : driver_(driver), memory_(arena, bytes) {
  driver_.check(driver_.host_register(memory_.data(), bytes, kHostPortable), "cuMemHostRegister");
}

void Staging::make_room(std::size_t bytes) {
  while (slots_.size() < kSlots) slots_.emplace_back(driver_);
  if (pinned_ != nullptr && pinned_->bytes() >= bytes) return;
  pinned_.reset();
  pinned_ = std::make_unique<Pinned>(driver_, engine_.host().arena(), bytes);
}

// The device may wait for work of the caller that does not end, perhaps because its peer is gone.
void Staging::await(const Event& event) const {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(group_.timeout);
  for (unsigned looks = 0; !event.done(); ++looks) {
    if (looks < calibration::kLooksAtDevice) {
      std::this_thread::yield();
      continue;
    }
    if (Clock::now() > deadline)
      throw Failure(ErrorKind::timeout, group_.name_of(group_.rank) + ": the device has not finished the work before " +
                                            describe(group_.last(), group_.sequence()) + " in time");
    std::this_thread::sleep_for(calibration::kDeviceLook);
  }
}

void Staging::fetch(const Call& call, StreamHandle stream, Slot& slot, std::byte* to, std::size_t chunk) {
  const std::size_t size = size_of(call.dtype);
  slot.count = std::min(chunk, call.count - slot.first);
  driver_.check(driver_.copy_to_host(to, call.data + slot.first * size, slot.count * size, stream),
                "cuMemcpyDtoHAsync");
  slot.there.record(stream);
}

void Staging::all_reduce(const Call& call, StreamHandle stream) {
  const std::size_t size = size_of(call.dtype);
  const std::size_t chunk = std::min(call.count, calibration::kStagedChunk / size);
  if (chunk == 0) return;
  const std::size_t slot_bytes = rounded_up(chunk * size, kPage);
  make_room(kSlots * slot_bytes);
  const std::size_t chunks = (call.count + chunk - 1) / chunk;
  const auto memory_of = [&](std::size_t index) { return pinned_->data() + index % kSlots * slot_bytes; };
  const auto begin = [&](std::size_t index) {
    Slot& slot = slots_[index % kSlots];
    slot.first = index * chunk;
    fetch(call, stream, slot, memory_of(index), chunk);
  };
  for (std::size_t index = 0; index < std::min(kSlots, chunks); ++index) begin(index);
  for (std::size_t index = 0; index < chunks; ++index) {
    const Slot& slot = slots_[index % kSlots];
    await(slot.there);
    paceline::all_reduce(engine_, group_, memory_of(index), slot.count, call.dtype, call.op, call.factor,
                         Mode::blocking);
    driver_.check(driver_.copy_to_device(call.data + slot.first * size, memory_of(index), slot.count * size, stream),
                  "cuMemcpyHtoDAsync");
    if (index + kSlots < chunks) begin(index + kSlots);  // the stream keeps them in order
  }
}

}  // namespace paceline::device
