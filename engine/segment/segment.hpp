// The memory in which the ranks of a group on one machine work together: each rank has a part of it in its own arena.
//
// Every collective in this memory is an epoch. Epochs are numbered from 1, alike on all ranks. A rank begins epoch t by
// filling in its cell for t and then storing t there. Its data lie in one of S slots, either small or medium ones. It
// begins t once all ranks have begun t-S+1: they have then finished t-S, and no longer look at the slot that t
// overwrites. Large data lie wherever there is room: as with two medium slots, two consecutive epochs do not overlap.
// A rank that needs no other rank, such as the root of a broadcast, thus runs ahead, so that ranks that share CPUs need
// not switch between each other at every call. Before a rank begins t it also checks that the cells of all epochs up to
// t-S+1 agree: there are twice as many cells as small slots, so none of these can be overwritten meanwhile. Only its
// owner writes to a cell or a slot; the comment on each counter says who writes to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "delays/delays.hpp"
#include "link/header.hpp"
#include "memory/arena.hpp"
#include "segment/handover.hpp"

namespace paceline {

class Link;

inline constexpr std::size_t kOneShotBytes = std::size_t{64} << 10;
inline constexpr std::size_t kSmallBytes = std::size_t{2} << 10;
inline constexpr std::uint64_t kSmallSlots = 16;
inline constexpr std::uint64_t kMediumSlots = 2;
inline constexpr std::size_t kMediumBytes = std::size_t{8} << 10;
inline constexpr std::size_t kLargestSlot = std::size_t{1} << 20;
inline constexpr std::size_t kLargeBytes = std::size_t{4} << 20;
inline constexpr std::uint64_t kCells = 2 * kSmallSlots;
inline constexpr std::size_t kPipeBytes = std::size_t{4} << 20;

struct alignas(kCacheLine) Cell {
  std::atomic<std::uint64_t> epoch;
  Fingerprint what;
  std::uint64_t place;  // the offset of the rank's buffer, or of its slot, in its arena; or as in SharedAllReduce
  std::uint32_t sequence;
  std::atomic<std::int32_t> cpu;  // the CPU that the rank ran on when it began the epoch
  std::byte small[24];            // data that fits in here needs no slot: one cache line holds everything
};
static_assert(sizeof(Cell) == kCacheLine);

// Marks the cell of an epoch that its owner has begun and will not finish, beside the epoch's number.
inline constexpr std::uint64_t kGivenUp = std::uint64_t{1} << 63;

// Marks an address in a rank's process, in place of an offset in its arena.
inline constexpr std::uint64_t kOutside = std::uint64_t{1} << 63;

// Counts how much of an epoch is done. It holds the epoch, too, and so it only grows and never has to be reset.
struct alignas(kCacheLine) Counter {
  std::atomic<std::uint64_t> value;
};

struct SegmentMemory {
  Cell cells[kCells];
  Counter claimed;      // pieces of this rank's region that ranks have claimed; any rank counts
  Counter finished[2];  // pieces done in all regions together, in the first rank's part alone; any rank counts
  Counter staged;       // see SharedAllReduce and SharedExchange; only the owner counts
  Counter reduced;
  Counter taken;
  Counter done;      // the last epoch that the owner has finished
  Counter writing;   // the epoch in which the owner is writing to buffers of other ranks; 0 while it is not
  Counter ended;     // 0 while the owner takes part; then the first epoch that it will not finish, and Ending
  Counter departed;  // ranks that no longer look at this memory; any rank counts
  ProbedLines probed;
  alignas(4096) std::byte small[kSmallSlots][kSmallBytes];
  alignas(4096) std::byte medium[kMediumSlots][kMediumBytes];
  alignas(4096) std::byte large[kLargeBytes];
  alignas(4096) std::byte pipe[kPipeBytes];
};
static_assert(kLargestSlot >= kOneShotBytes && kLargeBytes >= 3 * kLargestSlot);

// How a rank has ceased to take part in a group. The word `ended` holds it in its last bit.
enum class Ending : std::uint64_t {
  left,    // in good order, with nothing under way
  failed,  // the reason follows over its links
};

// What a rank has done about an epoch.
enum class Presence : std::uint8_t { awaited, begun, left, failed };

// The data that a rank has for another rank in an epoch: see SharedExchange.
struct Block {
  std::uint64_t place;  // its offset in the rank's arena; with kOutside, an address in its process
  std::uint64_t bytes;
  std::uint64_t behind;                // with kFilling: the bytes that go to the slot before these
  std::uint64_t unit;                  // with kFilling: the bytes that `staged` counts as one
  std::atomic<std::uint64_t> fetched;  // with kFilling: the bytes that this rank has fetched from the other one
};

// The data pass through a slot of kLargestSlot, again and again; `staged` tells how much was copied there.
inline constexpr std::uint64_t kFilling = std::uint64_t{1} << 62;

// A rank's part of the segment begins with this. After it come the Blocks: one for each rank and small slot.
class SharedSegment {
 public:
  static constexpr unsigned kProgressBits = 20;
  static constexpr std::uint64_t progress(std::uint64_t epoch, std::uint64_t done) {
    return epoch << kProgressBits | done;
  }

  // `members` are the group ranks of its ranks, `rank` is the place of this one among them.
  SharedSegment(Arena& arena, int rank, std::vector<int> members);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::uint64_t offset() const { return arena_.offset_of(&own_); }
  // Notes where another rank's part lies in that rank's arena. Returns false if it cannot lie there.
  bool learn(int rank, Link& link, std::uint64_t offset);
  bool knows(int rank) const { return parts_[static_cast<std::size_t>(rank)].memory != nullptr; }
  bool ready() const { return unknown_ == 0; }

  int rank() const { return rank_; }
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  std::span<const int> members() const { return members_; }
  int place_of(int member) const;  // the rank of this member here, or -1 if it has none
  int size() const { return static_cast<int>(parts_.size()); }
  Arena& arena() const { return arena_; }
  SegmentMemory& own() const { return own_; }
  SegmentMemory& of(int rank) const { return *parts_[static_cast<std::size_t>(rank)].memory; }
  Cell& cell(int rank, std::uint64_t epoch) const { return of(rank).cells[epoch % kCells]; }
  // The blocks that `rank` has for each rank in this epoch.
  Block* blocks(int rank, std::uint64_t epoch) const {
    return reinterpret_cast<Block*>(&of(rank) + 1) + epoch % kSmallSlots * parts_.size();
  }
  // Returns the memory at `offset` of a rank's arena, or null if that is outside of it.
  std::byte* at(int rank, std::uint64_t offset, std::size_t bytes) const;
  // Whether all ranks may read this one's memory. To read a rank's memory returns 0 or an errno.
  bool all_readable() const;
  int read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const;

  std::uint32_t rounds_staged = 0;  // rounds of SharedAllReduce in all epochs so far

  std::uint64_t next_epoch() { return ++last_epoch_; }
  // Whether this rank has finished all epochs before this one.
  bool is_next(std::uint64_t epoch) const { return finished_ + 1 == epoch; }
  void finish(std::uint64_t epoch) {
    finished_ = epoch;
    own_.done.value.store(epoch, std::memory_order_release);
  }

  // Whether another rank is known to have finished this epoch.
  bool finished(int rank, std::uint64_t epoch) const {
    return of(rank).done.value.load(std::memory_order_acquire) >= epoch;
  }

  bool begun(int rank, std::uint64_t epoch) const { return presence(rank, epoch) == Presence::begun; }
  Presence presence(int rank, std::uint64_t epoch) const {
    const auto begun = cell(rank, epoch).epoch.load(std::memory_order_acquire);
    if (begun >= epoch && begun < kGivenUp) return Presence::begun;
    return absence(rank, epoch);
  }
  // Whether a rank that has begun this epoch has not given it up so far. What was read from its memory before counts
  // only then: see `end`.
  bool stands(int rank, std::uint64_t epoch) const {
    delay(Between::data_and_standing);
    std::atomic_thread_fence(std::memory_order_acquire);
    return cell(rank, epoch).epoch.load(std::memory_order_relaxed) == epoch;
  }
  // This rank takes part no more. Nothing that it has shown in epochs that it has not finished counts any longer, and
  // it may change that memory from now on.
  void end(Ending how);
  bool ended(int rank) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return of(rank).ended.value.load(std::memory_order_relaxed) != 0;
  }
  // Whether another rank that is alive is writing to buffers of this epoch.
  bool others_write(std::uint64_t epoch) const;
  bool all_begun(std::uint64_t epoch) const;
  // The most bytes that go into a small slot. Two ranks most often have a CPU each, and gain little from small slots:
  // for them the slots in use had better stay in the nearest cache.
  std::size_t small_bytes() const { return size() == 2 ? kSmallBytes / 2 : kSmallBytes; }
  // Returns this rank's slot in this epoch for `bytes`, which are at most kLargestSlot. Call it once an epoch.
  std::byte* slot(std::uint64_t epoch, std::size_t bytes, bool in_small);
  // Copies what this rank has for its peers to where they see it; they follow when they read it.
  void hand_over(std::byte* to, const std::byte* from, std::size_t bytes) { handover_.copy(to, from, bytes); }
  void follow(int rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    Handover::follow(part.memory->probed, part.probe);
  }
  bool streams() const { return handover_.streams(); }
  // The last epoch that all ranks are known to have begun with the same collective.
  std::uint64_t agreed() const { return agreed_; }
  void agree(std::uint64_t epoch) { agreed_ = epoch; }
  // Shows the other ranks the cell of this epoch. The last rank to begin wakes those that sleep, and so does one that
  // is `awaited`. Returns whether all have begun; the last one is sure to see that.
  bool begin(std::uint64_t epoch, bool awaited);
  // Wakes all other ranks that sleep. They see everything that this rank stored before.
  void wake_others() const;

  // This rank begins no more epochs. Other ranks may read its part until all have departed; the part is then abandoned.
  void depart();
  bool abandoned() const;

  // The last collectives that `rank` has begun and finished here, even if it is gone since; null if there was none.
  const Cell* last_begun(int rank) const;
  const Cell* last_finished(int rank) const;

 private:
  struct Part {
    SegmentMemory* memory = nullptr;
    Link* link = nullptr;
    std::uint32_t probe = 0;  // the last probe of that rank which this one has followed
  };

  void ring() const;
  Presence absence(int rank, std::uint64_t epoch) const;
  void populate(std::size_t bytes);

  Arena& arena_;
  SegmentMemory& own_;
  const int rank_;
  const std::vector<int> members_;
  std::vector<Part> parts_;
  int unknown_;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t agreed_ = 0;
  Handover handover_{own_.probed};
  std::size_t large_begin_ = 0;  // where the last large slot begins
  std::size_t large_end_ = 0;
  std::size_t populated_ = 0;
};

}  // namespace paceline
