// Plans that first join the ranks of each machine, for those who do that by other means than messages: which part of a
// buffer each rank then has, and what is left to do between machines.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "program/intervals.hpp"
#include "program/plan.hpp"

namespace paceline {

class MachineFirst {
 public:
  // Nothing if it is no such plan: the ranks of each machine, where there are several, combine all of the buffer from
  // all of them, in order, before any of them does anything else, and never again; and a rank then has at most so many
  // `ranges`. machines: of every rank; those with equal numbers share one.
  static std::optional<MachineFirst> of(const Plan& plan, const std::vector<int>& machines, std::size_t ranges);

  // The plan without what the ranks of a machine do among themselves.
  const Plan& between() const { return between_; }
  // Where a range of any machine begins or ends, in order, from 0 to 1: between two neighbours lies a segment.
  const std::vector<Fraction>& cuts() const { return cuts_; }
  std::size_t segments() const { return cuts_.size() - 1; }
  // Whether the rank has this segment once its machine's ranks are joined.
  bool has(int rank, std::size_t segment) const { return has_[static_cast<std::size_t>(rank)][segment]; }

 private:
  Plan between_;
  std::vector<Fraction> cuts_;
  std::vector<std::vector<bool>> has_;  // by rank and segment
};

// Where these parts lie in a buffer that goes between machines in chunks. Each chunk is divided as a buffer of its own
// would be, and has the next elements of every segment, which is in one piece in the buffer.
class MachineParts {
 public:
  // Elements from the beginning of the buffer, and from that of the chunk.
  struct Slice {
    std::size_t there;
    std::size_t here;
    std::size_t count;
  };

  // Returns into how many pieces so many elements are cut when a plan between machines is carried out.
  using Pieces = std::function<std::size_t(const Plan& between, std::size_t elements)>;

  // count, chunk: elements of the buffer, and of every chunk but the last.
  MachineParts(MachineFirst plan, std::size_t count, std::size_t chunk, Pieces pieces);

  const Plan& between() const { return plan_.between(); }
  // What this rank has of the buffer: as many intervals of elements as it has ranges, some perhaps empty.
  std::vector<Intervals::Interval> in_buffer(int rank) const;
  // What it has of a chunk.
  std::vector<Slice> in_chunk(int rank, std::size_t index) const;

 private:
  // Calls each(segment, begin, elements) for what is in a chunk of so many elements, piece by piece.
  template <typename Each>
  void divide(std::size_t elements, Each&& each) const;
  std::vector<std::size_t> lengths(std::size_t elements) const;

  MachineFirst plan_;
  std::size_t count_;
  std::size_t chunk_;
  Pieces pieces_;
  std::vector<std::size_t> in_full_chunk_;  // elements of each segment
  std::vector<std::size_t> begins_;         // of each segment in the buffer, and the end
};

}  // namespace paceline
