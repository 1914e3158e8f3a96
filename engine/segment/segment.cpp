#include "segment/segment.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "delays/delays.hpp"
#include "link/link.hpp"
#include "memory/cache.hpp"
#include "memory/rounding.hpp"

namespace paceline {
namespace {

std::size_t part_bytes(std::size_t ranks) { return sizeof(SegmentMemory) + kSmallSlots * ranks * sizeof(Block); }

SegmentMemory& allocate(Arena& arena, std::size_t ranks) {
  // What comes before the slots is cleared. The rest need not be, and so its pages do not exist before they are used.
  std::byte* memory = arena.allocate(part_bytes(ranks));
  std::memset(memory, 0, offsetof(SegmentMemory, small));
  return *reinterpret_cast<SegmentMemory*>(memory);
}

}  // namespace

SharedSegment::SharedSegment(Arena& arena, int rank, std::vector<int> members)
    : arena_(arena),
      own_(allocate(arena, members.size())),
      rank_(rank),
      members_(std::move(members)),
      parts_(members_.size()),
      unknown_(static_cast<int>(members_.size()) - 1) {
  parts_[static_cast<std::size_t>(rank)].memory = &own_;
}

SharedSegment::~SharedSegment() {
  auto* memory = reinterpret_cast<std::byte*>(&own_);
  if (abandoned()) {
    arena_.release(memory);
  } else {
    arena_.retire(memory);
  }
}

int SharedSegment::place_of(int member) const {
  const auto found = std::ranges::find(members_, member);
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

// A reader first reads data, then looks whether they still stand. So the marks come before anything that the owner does
// with its memory later.
void SharedSegment::end(Ending how) {
  auto& ended = own_.ended.value;
  if (ended.load(std::memory_order_relaxed) != 0) return;
  ended.store((finished_ + 1) << 1 | static_cast<std::uint64_t>(how), std::memory_order_release);
  delay(Between::ended_and_marks);
  for (Cell& cell : own_.cells) {
    const auto begun = cell.epoch.load(std::memory_order_relaxed);
    if (begun > finished_) cell.epoch.store(begun | kGivenUp, std::memory_order_release);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Presence SharedSegment::absence(int rank, std::uint64_t epoch) const {
  const auto ended = of(rank).ended.value.load(std::memory_order_acquire);
  if (ended == 0 || epoch < ended >> 1) return Presence::awaited;
  return (ended & 1) == static_cast<std::uint64_t>(Ending::left) ? Presence::left : Presence::failed;
}

bool SharedSegment::others_write(std::uint64_t epoch) const {
  return std::ranges::any_of(parts_, [epoch](const Part& part) {
    return part.link != nullptr && !part.link->lost() &&
           part.memory->writing.value.load(std::memory_order_acquire) == epoch;
  });
}

void SharedSegment::depart() {
  delay(Between::done_and_departure);
  for (const Part& part : parts_)
    if (part.memory != nullptr) part.memory->departed.value.fetch_add(1, std::memory_order_acq_rel);
}

bool SharedSegment::abandoned() const { return own_.departed.value.load(std::memory_order_acquire) == parts_.size(); }

bool SharedSegment::learn(int rank, Link& link, std::uint64_t offset) {
  Part& part = parts_[static_cast<std::size_t>(rank)];
  if (part.memory != nullptr) return false;
  std::byte* memory =
      offset % alignof(SegmentMemory) == 0 ? link.arena()->at(offset, part_bytes(parts_.size())) : nullptr;
  if (memory == nullptr) return false;
  part = {reinterpret_cast<SegmentMemory*>(memory), &link, 0};
  --unknown_;
  return true;
}

std::byte* SharedSegment::at(int rank, std::uint64_t offset, std::size_t bytes) const {
  if (rank == rank_) return arena_.at(offset);
  return parts_[static_cast<std::size_t>(rank)].link->arena()->at(offset, bytes);
}

bool SharedSegment::all_readable() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.link == nullptr || part.link->readable(); });
}

int SharedSegment::read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const {
  return parts_[static_cast<std::size_t>(rank)].link->read(address, to, bytes);
}

std::byte* SharedSegment::slot(std::uint64_t epoch, std::size_t bytes, bool in_small) {
  if (in_small) return own_.small[epoch % kSmallSlots];
  if (bytes <= kMediumBytes) return own_.medium[epoch % kMediumSlots];
  // Large slots go round in as little memory as the caches' turnover allows, but never overlap with the one before.
  const std::size_t room = std::max(caches().turnover(), bytes);
  std::size_t begin = large_end_ + bytes > room ? 0 : large_end_;
  if (begin < large_end_ && large_begin_ < begin + bytes) begin = large_end_;
  large_begin_ = begin;
  large_end_ = begin + rounded_up(bytes, kCacheLine);
  populate(std::max(large_end_, caches().turnover()));
  return own_.large + begin;
}

void SharedSegment::populate(std::size_t bytes) {
  if (bytes <= populated_) return;
  Arena::populate(own_.large + populated_, bytes - populated_);
  populated_ = bytes;
}

bool SharedSegment::all_begun(std::uint64_t epoch) const {
  for (int other = 0; other < size(); ++other)
    if (other != rank_ && !begun(other, epoch)) return false;
  return true;
}

bool SharedSegment::begin(std::uint64_t epoch, bool awaited) {
  delay(Between::cell_and_epoch);
  own_.cells[epoch % kCells].epoch.store(epoch, std::memory_order_release);
  delay(Between::begun_and_look);
  // The last of the beginning ranks to pass its fence sees the cells of all.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool whole = all_begun(epoch);
  if (awaited || whole) ring();
  return whole;
}

void SharedSegment::wake_others() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring();
}

void SharedSegment::ring() const {
  for (const Part& part : parts_)
    if (part.link != nullptr) part.link->wake();
}

const Cell* SharedSegment::last_begun(int rank) const {
  if (!knows(rank)) return nullptr;
  const Cell* last = nullptr;
  std::uint64_t epoch = 0;
  for (const Cell& cell : of(rank).cells) {
    const auto begun = cell.epoch.load(std::memory_order_acquire) & ~kGivenUp;
    if (begun <= epoch) continue;
    epoch = begun;
    last = &cell;
  }
  return last;
}

const Cell* SharedSegment::last_finished(int rank) const {
  const auto epoch = knows(rank) ? of(rank).done.value.load(std::memory_order_relaxed) : 0;
  return epoch == 0 ? nullptr : &cell(rank, epoch);
}

}  // namespace paceline
