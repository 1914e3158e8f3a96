// The memory that ranks of one machine share for the policy `board`: marks that tell which rank has submitted what, and
// one log that all follow.
//
// Each function is one atomic, sequentially consistent step. The engine implements them by atomics in a span of shared
// bytes, tests and simulation by plain memory. Everything else, above all which slot has which name, follows from the
// log alone, so that ranks that are at the same place in the log know the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

class BoardMemory {
 public:
  BoardMemory() = default;
  virtual ~BoardMemory() = default;
  BoardMemory(const BoardMemory&) = delete;
  BoardMemory& operator=(const BoardMemory&) = delete;

  // The numbers of local ranks, of slots at first, and of words in the longest entry.
  virtual int ranks() const = 0;
  virtual std::uint32_t slots() const = 0;
  virtual std::size_t longest() const = 0;

  // Slots can be doubled so often.
  static constexpr unsigned kDoublings = 8;
  std::uint32_t most() const { return slots() << kDoublings; }
  // Makes room for twice as many slots as there are. The first local rank alone calls this, before anybody uses them.
  // Throws std::bad_alloc.
  virtual void grow(std::uint32_t /*slots*/) {}

  // Each local rank has a word in each slot, 0 at first, that it alone writes.
  virtual void mark(std::uint32_t slot, int rank, std::uint64_t word) = 0;
  virtual std::uint64_t marked(std::uint32_t slot, int rank) const = 0;
  // Returns true to the first caller with this round of the slot, and false once it or a later round was claimed.
  virtual bool claim(std::uint32_t slot, std::uint32_t round) = 0;

  // Each local rank has a word, 0 at first, that says whether it has joined, and as of when.
  virtual void join(int rank, std::uint64_t word) = 0;
  virtual std::uint64_t joined(int rank) const = 0;

  // These count the local ranks that wait for something that they have submitted. A rank that begins to wait and then
  // looks into the log sees everything that was appended by a rank that did not see it in `wanted` afterwards.
  virtual void want(bool begins) = 0;
  virtual bool wanted() const = 0;

  // Appends to the log, which consists of entries of one or more words. Returns false if there is no room before other
  // ranks have read on.
  virtual bool append(std::span<const std::uint64_t> entry) = 0;
  // Whether another rank had appended to the log behind the last entry of this one before that could be read. Ranks
  // that it has woken found nothing to read, and may sleep again.
  virtual bool overtaken() const { return false; }
  // Reads the entry at `position` and moves `position` on to the next one; returns false if there is none yet. Only
  // words that `rank` will not read again are overwritten. Positions begin at 0 and grow for ever.
  virtual bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) = 0;
};

}  // namespace paceline
