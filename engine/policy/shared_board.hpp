// A board in memory that processes share: atomics only, no locks, so that nobody waits for a process that was killed.
#pragma once

#include <atomic>
#include <span>

#include "policy/board_memory.hpp"

namespace paceline {

// The same on all ranks of a machine.
struct BoardShape {
  int ranks = 1;
  std::uint32_t slots = 4096;      // names that are known at a time
  std::uint32_t words = 1U << 15;  // of the log; a power of two

  std::size_t bytes() const;
};

class SharedBoard : public BoardMemory {
 public:
  // `memory`: `shape.bytes()` bytes, on a cache line, zero before the first rank comes; each process may have them at
  // an address of its own. Throws Failure (invalid) if they do not fit.
  SharedBoard(std::span<std::byte> memory, const BoardShape& shape);

  int ranks() const override { return shape_.ranks; }
  std::uint32_t slots() const override { return shape_.slots; }
  std::size_t longest() const override { return shape_.words / 4; }

  void mark(std::uint32_t slot, int rank, std::uint64_t word) override;
  std::uint64_t marked(std::uint32_t slot, int rank) const override;
  bool claim(std::uint32_t slot, std::uint32_t round) override;
  void join(int rank, std::uint64_t word) override;
  std::uint64_t joined(int rank) const override;
  void want(bool begins) override;
  bool wanted() const override;
  bool append(std::span<const std::uint64_t> entry) override;
  bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) override;

 private:
  using Atom = std::atomic<std::uint64_t>;
  static_assert(Atom::is_always_lock_free && sizeof(Atom) == 8);

  struct Cell {
    Atom stamp;  // 1 + the position that the word was written for
    Atom word;
  };
  struct alignas(64) Line {
    Atom joined;
    Atom position;  // in the log: what lies before it, this rank will not read again
  };

  Atom& claimed(std::uint32_t slot) const { return slots_[slot * stride_]; }
  Cell& cell(std::uint64_t position) const { return cells_[position & (shape_.words - 1)]; }
  bool has_room(std::uint64_t end);

  const BoardShape shape_;
  const std::size_t stride_;  // words of a slot: who claimed it, a mark of each rank, padding
  Atom* tail_;
  Atom* wanted_;  // on the tail's cache line
  Line* lines_;
  Atom* slots_;
  Cell* cells_;
  std::uint64_t all_have_read_ = 0;  // when last looked
};

}  // namespace paceline
