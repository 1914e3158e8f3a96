// Lowers a collective with a root to this rank's program, along the edges of a tree that another rank is the root of.
#pragma once

#include <span>

#include "program/plan.hpp"
#include "program/writer.hpp"

namespace paceline {

// Turns the tree of a broadcast's plan: the data climb from `root` to the plan's own root, then go down to the ranks
// that were not on that way, or the other way round. They cross the edges of the plan alone, so they still enter a
// machine or a switch only once. Each chunk is a track.
class TreeLowering : private ProgramWriter {
 public:
  using ProgramWriter::ProgramWriter;

  void broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  // `scratch` has `scratch_bytes`.
  void reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
              std::span<std::byte> scratch);
  static std::size_t scratch_bytes(const Plan& plan, std::size_t count, DType dtype);

 private:
  void turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root);
  // The same backwards: data of ranks that are not on the way are combined upwards into it, then everything goes to the
  // root. This rank's own part lies in `own`, and what it combines goes to `to`.
  void turned_reduction(const Plan& plan, std::byte* to, const std::byte* own, std::size_t bytes, int root);
};

}  // namespace paceline
