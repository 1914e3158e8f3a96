#include "execute/shared_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "execute/group.hpp"
#include "memory/cache.hpp"
#include "memory/rounding.hpp"

namespace paceline {
namespace {

constexpr std::size_t kSlice = std::size_t{1} << 20;  // fetched in one step
// A copy in the slot saves the wait until others have read, and a call to the kernel: worth it up to a share of what is
// handed over before memory is used again. What others can read where it lies is copied only if it is small.
constexpr std::size_t kTurnoverPerSlot = 8;
constexpr std::size_t kShared = std::size_t{4} << 10;

bool same(const Place& one, const Place& other) { return one.address == other.address && one.bytes == other.bytes; }

}  // namespace

void SharedExchange::clear() {
  SharedOperation::clear();
  sends.clear();
  recvs.clear();
  slot_used_ = 0;
  exposed_ = read_remotely_ = false;
  step_ = 1;
  fetched_ = 0;
}

// What a slot would have to hold.
std::size_t SharedExchange::given_bytes() const {
  const int me = lane_->rank();
  std::size_t all = 0;
  const Place* last = nullptr;
  for (int rank = 0; rank < lane_->size(); ++rank) {
    if (rank == me || !has_for(me, rank)) continue;
    const Place& place = sends[static_cast<std::size_t>(rank)];
    if (last == nullptr || !same(*last, place)) all += rounded_up(place.bytes, kCacheLine);
    last = &place;
  }
  return all;
}

void SharedExchange::give(Cell&) {
  const int me = lane_->rank();
  const std::size_t all = given_bytes();
  const bool in_slot = all <= caches().turnover() / kTurnoverPerSlot;
  std::byte* slot = in_slot ? lane_->slot(turn_, all, runs_ahead()) : nullptr;
  Block* blocks = lane_->blocks(me, turn_);
  const Place* last = nullptr;
  Block shown{};
  try {
    for (int rank = 0; rank < lane_->size(); ++rank) {
      if (rank == me || !has_for(me, rank)) continue;
      const Place& place = sends[static_cast<std::size_t>(rank)];
      if (last == nullptr || !same(*last, place)) shown = show(rank, slot);
      last = &place;
      blocks[rank] = shown;
    }
  } catch (const std::bad_alloc&) {
    trouble_ = {ErrorKind::invalid, group->name_of(me) + " has no memory left for a copy that its peers can read"};
  }
}

// Makes what this rank has for `rank` visible, and says where.
Block SharedExchange::show(int rank, std::byte* slot) {
  const Place& place = sends[static_cast<std::size_t>(rank)];
  Arena& arena = lane_->arena();
  const bool in_arena = arena.holds(place.address, place.bytes);
  if (place.bytes == 0) return {};
  if (slot != nullptr && (!in_arena || place.bytes <= kShared)) {
    std::byte* to = slot + slot_used_;
    slot_used_ += rounded_up(place.bytes, kCacheLine);
    lane_->hand_over(to, place.address, place.bytes);
    return {arena.offset_of(to), place.bytes};
  }
  exposed_ = true;
  if (in_arena) return {arena.offset_of(place.address), place.bytes};
  if (lane_->all_readable()) return {reinterpret_cast<std::uint64_t>(place.address) | kOutside, place.bytes};
  std::byte* copy = arena.allocate(place.bytes);
  copies_.push_back(copy);
  lane_->hand_over(copy, place.address, place.bytes);
  return {arena.offset_of(copy), place.bytes};
}

SharedOperation::Result SharedExchange::work() {
  const int size = lane_->size();
  while (step_ < size) {
    const int rank = (lane_->rank() + step_) % size;
    if (!needs(rank)) {
      ++step_;
      continue;
    }
    if (!fetch_from(rank)) return Result::moved;
    fetched_ = 0;
    ++step_;
  }
  if (step_ == size) {
    lane_->own().taken.value.store(Lane::progress(turn_, 1), std::memory_order_release);
    lane_->wake_others();
    keep_own();
    ++step_;
  }
  return behind().empty() ? Result::complete : Result::waits;
}

// True once all of it is here.
bool SharedExchange::fetch_from(int rank) {
  const Place& place = recvs[static_cast<std::size_t>(rank)];
  const Block block = lane_->blocks(rank, turn_)[lane_->rank()];
  if (block.bytes != place.bytes) {
    trouble_ = {ErrorKind::mismatch, group->name_of(rank) + " sent " + std::to_string(block.bytes) + " bytes in " +
                                         description() + ", " + group->name_of(lane_->rank()) + " expects " +
                                         std::to_string(place.bytes)};
    return false;
  }
  const std::size_t size = std::min(kSlice, block.bytes - fetched_);
  if (size == 0) return true;
  read_remotely_ = true;
  std::byte* to = place.address + fetched_;
  if ((block.place & kOutside) == 0) {
    const std::byte* from = lane_->at(rank, block.place + fetched_, size);
    if (from == nullptr) {
      trouble_ = {ErrorKind::peer_lost, group->name_of(rank) + " names memory that it does not have"};
      return false;
    }
    std::memcpy(to, from, size);
  } else if (!read_from(rank, (block.place & ~kOutside) + fetched_, to, size)) {
    return false;
  }
  fetched_ += size;
  return fetched_ == block.bytes;
}

void SharedExchange::keep_own() {
  const auto me = static_cast<std::size_t>(lane_->rank());
  const Place& to = recvs[me];
  if (to.bytes > 0 && needs(lane_->rank()) && to.address != sends[me].address)
    std::memmove(to.address, sends[me].address, to.bytes);
}

std::vector<int> SharedExchange::behind() const {
  std::vector<int> ranks;
  const int me = lane_->rank();
  for (int rank = 0; exposed_ && rank < lane_->size(); ++rank) {
    if (rank == me || !has_for(me, rank)) continue;
    if (lane_->of(rank).taken.value.load(std::memory_order_acquire) < Lane::progress(turn_, 1)) ranks.push_back(rank);
  }
  return ranks;
}

void SharedExchange::end() {
  SharedOperation::end();
  give_back();
}

void SharedExchange::give_back() {
  for (std::byte* copy : copies_) lane_->arena().release(copy);
  copies_.clear();
}

}  // namespace paceline
