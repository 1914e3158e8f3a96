// A board in memory that processes share. It uses atomics and no locks, so that no rank waits for a process that was
// killed.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <span>

#include "policy/board_memory.hpp"

namespace paceline {

// The shape is the same on all ranks of a machine.
struct BoardShape {
  int ranks = 1;
  std::uint32_t slots = 4096;      // the names that are known at a time, at first
  std::uint32_t words = 1U << 15;  // the words of the log; a power of two

  std::size_t bytes() const;
};

// Where a board finds memory for more slots. The first rank of the machine allocates; all ranks see.
struct BoardGrowth {
  // Returns the place of so many bytes, which are zero, begin on a cache line and live as long as the board; never 0.
  // Throws std::bad_alloc.
  std::function<std::uint64_t(std::size_t)> allocate = {};
  // Returns these bytes, or null if this rank does not see them.
  std::function<std::byte*(std::uint64_t, std::size_t)> see = {};
};

class SharedBoard : public BoardMemory {
 public:
  // `memory` holds `shape.bytes()` bytes, begins on a cache line, and is zero before the first rank comes. Each process
  // may have it at an address of its own. Throws Failure (invalid) if it does not fit the shape.
  SharedBoard(std::span<std::byte> memory, const BoardShape& shape, BoardGrowth growth = {});

  int ranks() const override { return shape_.ranks; }
  std::uint32_t slots() const override { return shape_.slots; }
  std::size_t longest() const override { return shape_.words / 4; }
  void grow(std::uint32_t slots) override;

  void mark(std::uint32_t slot, int rank, std::uint64_t word) override;
  std::uint64_t marked(std::uint32_t slot, int rank) const override;
  bool claim(std::uint32_t slot, std::uint32_t round) override;
  void join(int rank, std::uint64_t word) override;
  std::uint64_t joined(int rank) const override;
  void want(bool begins) override;
  bool wanted() const override;
  bool append(std::span<const std::uint64_t> entry) override;
  bool overtaken() const override { return overtaken_; }
  bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) override;

 private:
  using Atom = std::atomic<std::uint64_t>;
  static_assert(Atom::is_always_lock_free && sizeof(Atom) == 8);

  struct Cell {
    Atom stamp;  // 1 + the position for which the word was written
    Atom word;
  };
  struct alignas(64) Line {
    Atom joined;
    Atom position;  // this rank will not read again what lies before this position of the log
  };

  // The words of a slot.
  Atom* row(std::uint32_t slot) const { return slot < shape_.slots ? slots_ + slot * stride_ : added(slot); }
  Atom* added(std::uint32_t slot) const;
  Cell& cell(std::uint64_t position) const { return cells_[position & (shape_.words - 1)]; }
  bool has_room(std::uint64_t end);

  const BoardShape shape_;
  const std::size_t stride_;  // the words of a slot: the claimed round, a mark of each rank, and padding
  Atom* tail_;
  Atom* wanted_;  // on the tail's cache line
  Line* lines_;
  Atom* places_;  // of what was added: the first of as many slots as there were at first, each next of twice as many
  Atom* slots_;
  Cell* cells_;
  const BoardGrowth growth_;
  mutable std::array<Atom*, kDoublings> added_{};  // where this rank sees them
  bool overtaken_ = false;
  std::uint64_t all_have_read_ = 0;  // the position before which all ranks had read, at the last look
};

}  // namespace paceline
