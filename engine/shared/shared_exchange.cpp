#include "shared/shared_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "calibration/messages.hpp"
#include "calibration/methods.hpp"
#include "execute/group.hpp"
#include "kernel/reduce.hpp"
#include "memory/cache.hpp"
#include "memory/rounding.hpp"

namespace paceline {
namespace {

constexpr std::size_t kSmallestUnit = std::size_t{4} << 10;  // bytes
constexpr std::size_t kMostUnits = std::size_t{1} << (SharedSegment::kProgressBits - 1);

// Returns the bytes in which a rank that gives so many tells how much of its slot is there.
std::size_t unit_of(std::size_t given) {
  std::size_t unit = kSmallestUnit;
  while (given / unit >= kMostUnits) unit *= 2;
  return unit;
}

bool same(const Place& one, const Place& other) { return one.address == other.address && one.bytes == other.bytes; }

}  // namespace

void SharedExchange::clear() {
  SharedOperation::clear();
  sends.clear();
  recvs.clear();
  fills_.clear();
  fill_ = fill_done_ = slot_used_ = 0;
  exposed_ = read_remotely_ = false;
  told_ = false;
}

// Returns the bytes that a slot would have to hold.
std::size_t SharedExchange::given_bytes() const {
  const int me = segment_->rank();
  std::size_t all = 0;
  const Place* last = nullptr;
  for (int rank = 0; rank < segment_->size(); ++rank) {
    if (rank == me || !has_for(me, rank)) continue;
    const Place& place = sends[static_cast<std::size_t>(rank)];
    if (last == nullptr || !same(*last, place)) all += rounded_up(place.bytes, kCacheLine);
    last = &place;
  }
  return all;
}

// A copy in the slot saves a call to the kernel, and the wait until others have read. If one rank has or gets
// everything, two cores share the work in this way.
bool SharedExchange::uses_slot(std::size_t all) const {
  if (what.root >= 0 || !segment_->all_readable()) return true;
  return all * static_cast<std::size_t>(segment_->size()) <= calibration::kSlotsOfAll * caches().second;
}

void SharedExchange::give(Cell&) {
  const int me = segment_->rank();
  const int size = segment_->size();
  const std::size_t all = given_bytes();
  const std::size_t portion = caches().block();
  unit_ = unit_of(all);
  slot_ = uses_slot(all) ? segment_->slot(epoch_, std::min(all, kLargestSlot), runs_ahead()) : nullptr;
  Block* blocks = segment_->blocks(me, epoch_);
  fetched_.assign(static_cast<std::size_t>(size), 0);
  int last = -1;
  // The rank before this one begins with the data that it gets here, so these come first.
  for (int i = 1; i < size; ++i) {
    const int rank = (me + size - i) % size;
    Block& block = blocks[rank];
    block.fetched.store(0, std::memory_order_relaxed);
    if (!has_for(me, rank)) continue;
    const Place& place = sends[static_cast<std::size_t>(rank)];
    if (last >= 0 && same(sends[static_cast<std::size_t>(last)], place)) {
      block.place = blocks[last].place;
      block.bytes = blocks[last].bytes;
      block.behind = blocks[last].behind;
      block.unit = blocks[last].unit;
    } else {
      show(block, place, all > portion);
    }
    last = rank;
  }
  fill(portion);
}

// Makes `place` visible, and returns where it is.
void SharedExchange::show(Block& block, const Place& place, bool in_portions) {
  Arena& arena = segment_->arena();
  const bool in_arena = arena.holds(place.address, place.bytes);
  block.bytes = place.bytes;
  block.place = block.behind = 0;
  block.unit = unit_;
  if (place.bytes == 0) return;
  if (slot_ != nullptr && (!in_arena || place.bytes <= calibration::kCopiedAnyway)) {
    block.behind = slot_used_;
    block.place = arena.offset_of(slot_) + (in_portions ? kFilling : slot_used_);
    fills_.push_back({slot_used_, place});
    slot_used_ += rounded_up(place.bytes, kCacheLine);
    return;
  }
  exposed_ = true;
  block.place = in_arena ? arena.offset_of(place.address) : reinterpret_cast<std::uint64_t>(place.address) | kOutside;
}

// Copies up to `most` more bytes to the slot, and tells how many are there. Returns false if it waits for readers.
bool SharedExchange::fill(std::size_t most) {
  const std::size_t before = most;
  while (most > 0 && fills()) {
    const Fill& one = fills_[fill_];
    const std::size_t at = (one.behind + fill_done_) % kLargestSlot;
    const std::size_t size = std::min({most, one.what.bytes - fill_done_, kLargestSlot - at});
    if (!vacant(one.behind + fill_done_ + size)) break;
    segment_->hand_over(slot_ + at, one.what.address + fill_done_, size);
    most -= size;
    fill_done_ += size;
    if (fill_done_ < one.what.bytes) continue;
    fill_done_ = 0;
    ++fill_;
  }
  const std::size_t filled = fills() ? fills_[fill_].behind + fill_done_ : rounded_up(slot_used_, unit_);
  segment_->own().staged.value.store(SharedSegment::progress(epoch_, filled / unit_), std::memory_order_release);
  return most < before;
}

// Returns whether all ranks have read the data that filling the slot up to `end` would overwrite.
bool SharedExchange::vacant(std::size_t end) const {
  if (end <= kLargestSlot) return true;
  const std::uint64_t overwritten = end - kLargestSlot;
  const int me = segment_->rank();
  for (int rank = 0; rank < segment_->size(); ++rank) {
    if (rank == me || !has_for(me, rank)) continue;
    const Block& block = segment_->blocks(me, epoch_)[rank];
    if ((block.place & kFilling) == 0 || overwritten <= block.behind) continue;
    const auto fetched = segment_->blocks(rank, epoch_)[me].fetched.load(std::memory_order_acquire);
    if (fetched < std::min(block.bytes, overwritten - block.behind)) return false;
  }
  return true;
}

// Reads from every rank that has readable data: a rank that fills its slot waits for all its readers.
SharedOperation::Result SharedExchange::work() {
  const int size = segment_->size();
  const bool filled = fills() && fill(caches().block());
  if (filled) segment_->wake_others();
  bool all = true;
  for (int i = 1; i < size; ++i) {
    const int rank = (segment_->rank() + i) % size;
    if (!has_for(rank, segment_->rank())) continue;
    const Result result = fetch_from(rank);
    if (result == Result::moved) return result;
    all = all && result == Result::complete;
  }
  if (!all || fills()) return filled ? Result::moved : Result::waits;
  if (!std::exchange(told_, true)) {
    segment_->own().taken.value.store(SharedSegment::progress(epoch_, 1), std::memory_order_release);
    segment_->wake_others();
    keep_own();
  }
  return behind().empty() ? Result::complete : Result::waits;
}

// Returns how many bytes of those that `rank` has for this rank can be read.
std::size_t SharedExchange::there(int rank, const Block& block) const {
  if ((block.place & kFilling) == 0) return block.bytes;
  const auto staged = segment_->of(rank).staged.value.load(std::memory_order_acquire);
  const auto begun = SharedSegment::progress(epoch_, 0);
  const std::uint64_t filled = staged < begun ? 0 : (staged - begun) * block.unit;
  return filled < block.behind ? 0 : std::min(block.bytes, filled - block.behind);
}

bool SharedExchange::unread(int rank) const {
  const auto from = static_cast<std::size_t>(rank);
  return has_for(rank, segment_->rank()) && fetched_[from] < recvs[from].bytes;
}

SharedOperation::Result SharedExchange::fetch_from(int rank) {
  const Place& place = recvs[static_cast<std::size_t>(rank)];
  const Block& block = segment_->blocks(rank, epoch_)[segment_->rank()];
  if (block.bytes != place.bytes) {
    trouble_ = {ErrorKind::mismatch, group->name_of(rank) + " sent " + std::to_string(block.bytes) + " bytes in " +
                                         description() + ", " + group->name_of(segment_->rank()) + " expects " +
                                         std::to_string(place.bytes)};
    return Result::moved;
  }
  std::size_t& fetched = fetched_[static_cast<std::size_t>(rank)];
  if (fetched == block.bytes) return Result::complete;
  const std::size_t ready = there(rank, block);
  if (ready <= fetched) return Result::waits;
  const bool filling = (block.place & kFilling) != 0;
  const std::size_t at = filling ? (block.behind + fetched) % kLargestSlot : fetched;
  const std::size_t size =
      std::min({calibration::kStepBytes, ready - fetched, filling ? kLargestSlot - at : calibration::kStepBytes});
  read_remotely_ = true;
  std::byte* to = place.address + fetched;
  if ((block.place & kOutside) == 0) {
    const std::byte* from = segment_->at(rank, (block.place & ~kFilling) + at, size);
    if (from == nullptr) return refuse(rank);
    kernels().copy(to, from, size);
    segment_->follow(rank);
  } else if (!read_from(rank, (block.place & ~kOutside) + at, to, size)) {
    return Result::moved;
  }
  fetched += size;
  if (filling) {
    segment_->blocks(segment_->rank(), epoch_)[rank].fetched.store(fetched, std::memory_order_release);
    segment_->wake_others();
  }
  return fetched == block.bytes ? Result::complete : Result::moved;
}

void SharedExchange::keep_own() {
  const auto me = static_cast<std::size_t>(segment_->rank());
  const Place& to = recvs[me];
  if (to.bytes > 0 && has_for(segment_->rank(), segment_->rank()) && to.address != sends[me].address)
    std::memmove(to.address, sends[me].address, to.bytes);
}

std::vector<int> SharedExchange::behind() const {
  std::vector<int> ranks;
  const int me = segment_->rank();
  if (!told_) {
    for (int rank = 0; rank < segment_->size(); ++rank)
      if (rank != me && (unread(rank) || (fills() && has_for(me, rank)))) ranks.push_back(rank);
    return ranks;
  }
  for (int rank = 0; exposed_ && rank < segment_->size(); ++rank) {
    if (rank == me || !has_for(me, rank)) continue;
    if (segment_->of(rank).taken.value.load(std::memory_order_acquire) < SharedSegment::progress(epoch_, 1))
      ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace paceline
