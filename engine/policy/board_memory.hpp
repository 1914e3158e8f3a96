// What ranks of one machine share for the policy `board`: marks of who has handed in what, and one log that all follow.
//
// Each function is one atomic step, sequentially consistent; implementations: atomics in any span of shared bytes (the
// engine), plain memory (tests, simulation). Everything else, above all which slot is which name, follows from the log
// alone, so that ranks that are at the same place in the log know the same.
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

  // How many local ranks there are, how many slots, and the words of the longest entry.
  virtual int ranks() const = 0;
  virtual std::uint32_t slots() const = 0;
  virtual std::size_t longest() const = 0;

  // A word of each local rank in each slot, 0 at first. Only its rank writes it.
  virtual void mark(std::uint32_t slot, int rank, std::uint64_t word) = 0;
  virtual std::uint64_t marked(std::uint32_t slot, int rank) const = 0;
  // True for the first caller with this round of the slot; false once it or a later round was claimed.
  virtual bool claim(std::uint32_t slot, std::uint32_t round) = 0;

  // A word of each local rank, 0 at first: what it knows of having joined.
  virtual void join(int rank, std::uint64_t word) = 0;
  virtual std::uint64_t joined(int rank) const = 0;

  // How many local ranks wait for something that they have handed in, and stop waiting. One that begins to and then
  // looks into the log sees what was appended there by whoever did not see it in `wanted` afterwards.
  virtual void want(bool begins) = 0;
  virtual bool wanted() const = 0;

  // The log: entries of one or more words. False if there is no room before others have read on.
  virtual bool append(std::span<const std::uint64_t> entry) = 0;
  // The entry at `position`, which goes to the one after it; false if there is none yet. Only words that `rank` will
  // not read again are overwritten. Positions begin at 0 and grow for ever.
  virtual bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) = 0;
};

}  // namespace paceline
