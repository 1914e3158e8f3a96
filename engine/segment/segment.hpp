// What the ranks of a group on one machine share to take turns: each has a part of it in its own arena.
//
// Every collective that goes this way is a turn, numbered from 1, the same on all ranks. A rank begins turn t by
// filling in its cell for t and then storing t there. What it has lies in one of S slots, those of small data or of
// medium ones: it begins t once everybody has begun t-S+1, that is, has finished t-S and looks no more at the slot that
// t overwrites. Large data lie where there is room: two turns in a row do not overlap, as in two medium slots. So who
// needs nobody, as the root of a broadcast, runs ahead, and its peers need not take turns on the CPUs that they share
// at every call. Before it begins, it also looks at the cells of turns up to t-S+1, whether all agree: with twice as
// many cells as small slots none of those can be overwritten meanwhile. Only its owner writes a cell or a slot;
// counters say who.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

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
  std::atomic<std::uint64_t> turn;
  Fingerprint what;
  std::uint64_t place;  // of the rank's buffer, or its slot, in its arena; or kPrivate
  std::uint32_t sequence;
  std::atomic<std::int32_t> cpu;  // where the rank ran when it began the turn
  std::byte small[24];            // data that fits in needs no slot: one cache line has it all
};
static_assert(sizeof(Cell) == kCacheLine);

inline constexpr std::uint64_t kPrivate = ~std::uint64_t{0};

// A turn and how much of it is done; grows for ever, so that nothing must be put back to zero.
struct alignas(kCacheLine) Counter {
  std::atomic<std::uint64_t> value;
};

struct LaneMemory {
  Cell cells[kCells];
  Counter claimed;      // pieces of this rank's region that somebody has taken on; anybody counts
  Counter finished[2];  // the first rank's: pieces done, all regions together; anybody counts
  Counter staged;       // see SharedAllReduce and SharedExchange; only the owner counts
  Counter reduced;
  Counter taken;
  Counter done;      // the last turn that the owner has finished
  Counter departed;  // ranks that look at this memory no more; anybody counts
  ProbedLines probed;
  alignas(4096) std::byte small[kSmallSlots][kSmallBytes];
  alignas(4096) std::byte medium[kMediumSlots][kMediumBytes];
  alignas(4096) std::byte large[kLargeBytes];
  alignas(4096) std::byte pipe[kPipeBytes];
};
static_assert(kLargestSlot >= kOneShotBytes && kLargeBytes >= 3 * kLargestSlot);

// What a rank has for another one in a turn, see SharedExchange.
struct Block {
  std::uint64_t place;  // in its arena; with kOutside, an address of its own
  std::uint64_t bytes;
  std::uint64_t behind;                // with kFilling, what goes to the slot before it
  std::atomic<std::uint64_t> fetched;  // of what the other one has for this rank, with kFilling
};

inline constexpr std::uint64_t kOutside = std::uint64_t{1} << 63;
// In a slot of kLargestSlot that goes round; `staged` tells how much was copied there.
inline constexpr std::uint64_t kFilling = std::uint64_t{1} << 62;

// A rank's part: this, and after it one Block for each rank, as often as there are small slots.
class Lane {
 public:
  static constexpr unsigned kProgressBits = 20;
  static constexpr std::uint64_t progress(std::uint64_t turn, std::uint64_t done) {
    return turn << kProgressBits | done;
  }

  // `members`: the group ranks of its ranks; `rank`: the place of this one among them.
  Lane(Arena& arena, int rank, std::vector<int> members);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::uint64_t offset() const { return arena_.offset_of(&own_); }
  // Where another rank's part lies in its arena; false if that cannot be.
  bool learn(int rank, Link& link, std::uint64_t offset);
  bool knows(int rank) const { return parts_[static_cast<std::size_t>(rank)].memory != nullptr; }
  bool ready() const { return unknown_ == 0; }

  int rank() const { return rank_; }
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  std::span<const int> members() const { return members_; }
  int place_of(int member) const;  // its rank here; -1 if it has none
  int size() const { return static_cast<int>(parts_.size()); }
  Arena& arena() const { return arena_; }
  LaneMemory& own() const { return own_; }
  LaneMemory& of(int rank) const { return *parts_[static_cast<std::size_t>(rank)].memory; }
  Cell& cell(int rank, std::uint64_t turn) const { return of(rank).cells[turn % kCells]; }
  // What `rank` has for each rank in this turn.
  Block* blocks(int rank, std::uint64_t turn) const {
    return reinterpret_cast<Block*>(&of(rank) + 1) + turn % kSmallSlots * parts_.size();
  }
  // What lies at `offset` of a rank's arena; null if that is outside.
  std::byte* at(int rank, std::uint64_t offset, std::size_t bytes) const;
  // Whether all ranks may read this one's memory; and reading a rank's: 0, or an errno.
  bool all_readable() const;
  int read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const;

  std::uint32_t rounds_staged = 0;  // by SharedAllReduce in all turns so far

  std::uint64_t next_turn() { return ++last_turn_; }
  // Whether this rank has finished all turns before this one.
  bool is_next(std::uint64_t turn) const { return finished_ + 1 == turn; }
  void finish(std::uint64_t turn) {
    finished_ = turn;
    own_.done.value.store(turn, std::memory_order_relaxed);
  }

  bool begun(int rank, std::uint64_t turn) const {
    return cell(rank, turn).turn.load(std::memory_order_acquire) >= turn;
  }
  bool all_begun(std::uint64_t turn) const;
  // What goes in a small slot. Two ranks most often have a CPU each and gain little: there the slots in use are to stay
  // in the nearest cache.
  std::size_t small_bytes() const { return size() == 2 ? kSmallBytes / 2 : kSmallBytes; }
  // This rank's slot for `bytes`, at most kLargestSlot, in a turn; to be asked for once in a turn.
  std::byte* slot(std::uint64_t turn, std::size_t bytes, bool in_small);
  // Copies what this rank has for its peers to where they see it; they follow when they read it.
  void hand_over(std::byte* to, const std::byte* from, std::size_t bytes) { handover_.copy(to, from, bytes); }
  void follow(int rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    Handover::follow(part.memory->probed, part.probe);
  }
  bool streams() const { return handover_.streams(); }
  // The last turn that everybody is known to have begun with the same collective.
  std::uint64_t agreed() const { return agreed_; }
  void agree(std::uint64_t turn) { agreed_ = turn; }
  // Lets the others see the cell of this turn. The last to begin wakes who sleeps, and so does who is `awaited`.
  // True if everybody has begun, which the last is sure to see.
  bool begin(std::uint64_t turn, bool awaited);
  // Wakes every other rank that sleeps; what they are to see was stored before.
  void wake_others() const;

  // This rank takes no more turns. Its part may be looked at until everybody has departed.
  void depart();
  bool forsaken() const;

  // The last collectives that `rank` has begun and finished here, also when it is gone; null if there was none.
  const Cell* last_begun(int rank) const;
  const Cell* last_finished(int rank) const;

 private:
  struct Part {
    LaneMemory* memory = nullptr;
    Link* link = nullptr;
    std::uint32_t probe = 0;  // the last one that was followed
  };

  void ring() const;
  void populate(std::size_t bytes);

  Arena& arena_;
  LaneMemory& own_;
  const int rank_;
  const std::vector<int> members_;
  std::vector<Part> parts_;
  int unknown_;
  std::uint64_t last_turn_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t agreed_ = 0;
  Handover handover_{own_.probed};
  std::size_t large_begin_ = 0;  // the last large slot
  std::size_t large_end_ = 0;
  std::size_t populated_ = 0;
};

}  // namespace paceline
