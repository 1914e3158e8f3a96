#include "device/staging.hpp"

#include <algorithm>

namespace paceline::device {

Staging::Staging(Engine& engine, Group& hosts, const Driver& driver, Control& control, std::size_t slot)
    : engine_(engine),
      hosts_(hosts),
      driver_(driver),
      control_(control),
      slot_(rounded_up(slot, kPage)),
      pinned_(driver, engine.host().arena(), kSlots * slot_) {}

Staging::Chunks Staging::plan(const Call& call) {
  const std::size_t elements = slot_ / size_of(call.dtype);
  const auto chunks = static_cast<std::uint32_t>((call.count + elements - 1) / elements);
  const std::uint32_t first = planned_;
  planned_ += chunks;
  return {call, elements, first, first, planned_, nullptr};
}

std::size_t Staging::count_of(const Chunks& chunks, std::uint32_t chunk) const {
  return std::min(chunks.elements, chunks.call.count - (chunk - chunks.first) * chunks.elements);
}

Address Staging::place_of(const Chunks& chunks, std::uint32_t chunk) const {
  return chunks.call.data + (chunk - chunks.first) * chunks.elements * size_of(chunks.call.dtype);
}

void Staging::fetch(const Chunks& chunks, std::uint32_t chunk, StreamHandle stream) {
  const std::size_t bytes = count_of(chunks, chunk) * size_of(chunks.call.dtype);
  driver_.check(driver_.copy_to_host(memory_of(chunk), place_of(chunks, chunk), bytes, stream), "cuMemcpyDtoHAsync");
  Batch batch;
  batch.write(control_.address_of(control_->here), chunk + 1);
  batch.submit(driver_, stream);
}

void Staging::hand_over(const Chunks& chunks, StreamHandle stream) {
  const auto exists = [&](std::uint32_t chunk) { return chunk - chunks.first < chunks.end - chunks.first; };
  for (std::uint32_t ahead = 0; ahead < kSlots; ++ahead)
    if (exists(chunks.first + ahead)) fetch(chunks, chunks.first + ahead, stream);
  for (std::uint32_t chunk = chunks.first; chunk != chunks.end; ++chunk) {
    const std::size_t bytes = count_of(chunks, chunk) * size_of(chunks.call.dtype);
    Batch batch;
    batch.wait(control_.address_of(control_->combined), chunk + 1);
    batch.submit(driver_, stream);
    driver_.check(driver_.copy_to_device(place_of(chunks, chunk), memory_of(chunk), bytes, stream),
                  "cuMemcpyHtoDAsync");
    if (exists(chunk + kSlots)) fetch(chunks, chunk + kSlots, stream);  // the stream keeps them in order
  }
}

bool Staging::has_work(const Chunks& chunks) const {
  if (chunks.next == chunks.end) return false;
  if (chunks.combining != nullptr) return chunks.combining->over();
  return reached(control_->here.load(), chunks.next + 1);
}

bool Staging::advance(Chunks& chunks, Error& trouble) {
  bool moved = false;
  while (has_work(chunks)) {
    moved = true;
    if (chunks.combining == nullptr) {
      const Call& call = chunks.call;
      std::byte* data = memory_of(chunks.next);
      chunks.combining = all_reduce(engine_, hosts_, data, count_of(chunks, chunks.next), call.dtype, call.op,
                                    call.factor, Mode::inside);
      continue;
    }
    if (chunks.combining->state() == Operation::State::failed) {
      trouble = chunks.combining->error();
      return true;
    }
    chunks.combining = nullptr;
    advance_to(control_->combined, ++chunks.next);
  }
  return moved;
}

void Staging::release(const Chunks& chunks) { advance_to(control_->combined, chunks.end); }

}  // namespace paceline::device
