// A ring of records in shared memory with one writer and one reader, which may be different processes.
//
// A record is a header and a payload in consecutive slots of one cache line each. The reader polls the stamp in the
// record's first slot, so a small message costs one cache line. The writer clears the stamp of the slot after a record
// before it publishes the record: the reader never takes old payload bytes for a stamp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "delays/delays.hpp"
#include "link/header.hpp"

namespace paceline {

inline constexpr std::size_t kSlots = 256;
inline constexpr std::size_t kSlotSize = 64;
inline constexpr std::size_t kInlineBytes = kSlotSize - sizeof(std::uint64_t) - sizeof(Header);
// Payloads of up to this many bytes are copied twice, after which the sender is done. To read one where it lies would
// take a call to the kernel, or the sender would have to wait for its reader.
inline constexpr std::size_t kLargestRecord = 4096;

struct alignas(kSlotSize) Slot {
  std::atomic<std::uint64_t> stamp;
  std::byte bytes[kSlotSize - sizeof(std::uint64_t)];
};
static_assert(sizeof(Slot) == kSlotSize && std::atomic<std::uint64_t>::is_always_lock_free);

struct alignas(kSlotSize) Cursor {
  std::atomic<std::uint64_t> position;
};

struct RingMemory {
  Slot slots[kSlots];
};

inline std::size_t slots_for(std::size_t payload) {
  return payload <= kInlineBytes ? 1 : 1 + (payload - kInlineBytes + kSlotSize - 1) / kSlotSize;
}

inline std::byte* slot_bytes(RingMemory& ring, std::uint64_t position) {
  return reinterpret_cast<std::byte*>(&ring.slots[position % kSlots]);
}

class RingWriter {
 public:
  RingWriter(RingMemory& ring, Cursor& consumed) : ring_(ring), consumed_(consumed) {}

  // Returns false if there is no room now. Leaves at least `spare` slots free.
  bool write(const Header& header, const std::byte* payload, std::size_t size, std::size_t spare = 0) {
    const std::size_t needed = slots_for(size);
    if (!has_room(needed + 1 + spare)) return false;
    Slot& first = ring_.slots[position_ % kSlots];
    std::memcpy(first.bytes, &header, sizeof header);
    const std::size_t head = std::min(size, kInlineBytes);
    if (payload != nullptr) std::memcpy(first.bytes + sizeof header, payload, head);
    for (std::size_t slot = 1, done = head; payload != nullptr && done < size; ++slot) {
      const std::size_t n = std::min(size - done, kSlotSize);
      std::memcpy(slot_bytes(ring_, position_ + slot), payload + done, n);
      done += n;
    }
    ring_.slots[(position_ + needed) % kSlots].stamp.store(0, std::memory_order_relaxed);
    delay(Between::data_and_stamp);
    first.stamp.store(position_ + 1, std::memory_order_release);
    position_ += needed;
    return true;
  }

  // Where the next record begins; whether the reader has read all records before `position`.
  std::uint64_t position() const { return position_; }
  bool was_read(std::uint64_t position) {
    if (consumed_seen_ < position) consumed_seen_ = consumed_.position.load(std::memory_order_acquire);
    return consumed_seen_ >= position;
  }

 private:
  bool has_room(std::size_t slots) {
    if (position_ + slots - consumed_seen_ <= kSlots) return true;
    consumed_seen_ = consumed_.position.load(std::memory_order_acquire);
    return position_ + slots - consumed_seen_ <= kSlots;
  }

  RingMemory& ring_;
  Cursor& consumed_;
  std::uint64_t position_ = 0;
  std::uint64_t consumed_seen_ = 0;
};

class RingReader {
 public:
  RingReader(RingMemory& ring, Cursor& consumed) : ring_(ring), consumed_(consumed) {}

  // Copies the header of the next record. Returns false if there is none.
  bool peek(Header& header) const {
    const Slot& first = ring_.slots[position_ % kSlots];
    if (first.stamp.load(std::memory_order_acquire) != position_ + 1) return false;
    std::memcpy(&header, first.bytes, sizeof header);
    return true;
  }

  // Copies the payload (`out.size()` bytes) of the record that `peek` saw and moves on.
  void take(std::span<std::byte> out) {
    const Slot& first = ring_.slots[position_ % kSlots];
    const std::size_t head = std::min(out.size(), kInlineBytes);
    if (head > 0) std::memcpy(out.data(), first.bytes + sizeof(Header), head);
    for (std::size_t slot = 1, done = head; done < out.size(); ++slot) {
      const std::size_t n = std::min(out.size() - done, kSlotSize);
      std::memcpy(out.data() + done, slot_bytes(ring_, position_ + slot), n);
      done += n;
    }
    position_ += slots_for(out.size());
    delay(Between::record_and_room);
    consumed_.position.store(position_, std::memory_order_release);
  }

 private:
  RingMemory& ring_;
  Cursor& consumed_;
  std::uint64_t position_ = 0;
};

}  // namespace paceline
