// A board that tells of every access to it, so that other ranks can come in between any two.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "policy/plain_board.hpp"

namespace paceline::test {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 33;
}

// Who is told, of the rank that is at it.
class Watcher {
 public:
  virtual void before_access() = 0;           // other ranks may go on before this returns
  virtual void note(std::uint64_t word) = 0;  // it was read from the log, or written there
  virtual void note_within(
      std::uint64_t word) = 0;  // it was seen elsewhere, and matters for the rest of the call alone

 protected:
  ~Watcher() = default;
};

class WatchedBoard : public BoardMemory {
 public:
  // late_marks: a fault: marks are seen only once their rank has looked at the log.
  WatchedBoard(Watcher& watcher, int ranks, std::uint32_t slots, bool late_marks)
      : watcher_(watcher), board_(ranks, slots, 4096), late_marks_(late_marks) {}

  int ranks() const override { return board_.ranks(); }
  std::uint32_t slots() const override { return board_.slots(); }
  std::size_t longest() const override { return board_.longest(); }
  void mark(std::uint32_t slot, int rank, std::uint64_t word) override;
  std::uint64_t marked(std::uint32_t slot, int rank) const override;
  bool claim(std::uint32_t slot, std::uint32_t round) override;
  void join(int rank, std::uint64_t word) override;
  std::uint64_t joined(int rank) const override;
  void want(bool begins) override;
  bool wanted() const override;
  bool append(std::span<const std::uint64_t> entry) override;
  bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) override;

  std::uint64_t contents() const { return mix(cells_, log_); }

 private:
  void flush_marks(int of);

  Watcher& watcher_;
  PlainBoard board_;
  bool late_marks_;
  std::uint64_t cells_ = 0;  // of what is in which cell, in any order
  std::uint64_t log_ = 0;
  std::set<std::tuple<std::uint32_t, int, std::uint64_t>> late_;  // marks that are not visible yet
};

inline void WatchedBoard::flush_marks(int of) {
  for (const auto& [slot, rank, word] : late_)
    if (rank == of) board_.mark(slot, rank, word);
  std::erase_if(late_, [&](const auto& mark) { return std::get<1>(mark) == of; });
}

inline void WatchedBoard::mark(std::uint32_t slot, int rank, std::uint64_t word) {
  watcher_.before_access();
  cells_ ^= mix(mix(slot, static_cast<std::uint64_t>(rank)), board_.marked(slot, rank));
  cells_ ^= mix(mix(slot, static_cast<std::uint64_t>(rank)), word);
  if (late_marks_)
    late_.emplace(slot, rank, word);
  else
    board_.mark(slot, rank, word);
}

inline std::uint64_t WatchedBoard::marked(std::uint32_t slot, int rank) const {
  watcher_.before_access();
  const std::uint64_t word = board_.marked(slot, rank);
  watcher_.note_within(word);
  return word;
}

inline bool WatchedBoard::claim(std::uint32_t slot, std::uint32_t round) {
  watcher_.before_access();
  const bool first = board_.claim(slot, round);
  watcher_.note_within(first);
  if (first) cells_ ^= mix(mix(slot, 77), round);
  return first;
}

inline void WatchedBoard::join(int rank, std::uint64_t word) {
  watcher_.before_access();
  cells_ ^= mix(static_cast<std::uint64_t>(rank) + 1000, board_.joined(rank));
  cells_ ^= mix(static_cast<std::uint64_t>(rank) + 1000, word);
  board_.join(rank, word);
}

inline std::uint64_t WatchedBoard::joined(int rank) const {
  watcher_.before_access();
  const std::uint64_t word = board_.joined(rank);
  watcher_.note_within(word);
  return word;
}

inline void WatchedBoard::want(bool begins) {
  watcher_.before_access();
  cells_ += begins ? 1 : ~std::uint64_t{0};
  board_.want(begins);
}

inline bool WatchedBoard::wanted() const {
  watcher_.before_access();
  const bool any = board_.wanted();
  watcher_.note_within(any);
  return any;
}

inline bool WatchedBoard::append(std::span<const std::uint64_t> entry) {
  watcher_.before_access();
  for (const std::uint64_t word : entry) {
    log_ = mix(log_, word);
    watcher_.note(word);
  }
  return board_.append(entry);
}

inline bool WatchedBoard::read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) {
  watcher_.before_access();
  flush_marks(rank);
  const bool any = board_.read(rank, position, entry);
  if (any)
    for (const std::uint64_t word : entry) watcher_.note(word);
  return any;
}

}  // namespace paceline::test
