// From a collective and a plan to this rank's program.
#pragma once

#include <span>

#include "program/flow.hpp"
#include "program/intervals.hpp"
#include "program/plan.hpp"
#include "program/program.hpp"
#include "program/rows.hpp"

namespace paceline {

// Builds the program of rank `rank` of `size`; the tags count the messages from one rank to another, chunk by chunk,
// and both ends count alike because both walk the same plan.
class Lowering {
 public:
  Lowering(Program& program, int rank, int size);

  // Reduce-scatter by the plan's levels, then their mirror image, but of a last level in one shot; each chunk is a
  // track.
  // The levels from `first` on; what comes before them is done otherwise.
  void all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                  std::size_t first = 0);
  // The plan's levels read backwards; each chunk is a track. From another root than 0 ranks count on from it, or the
  // same tree is turned.
  void broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  void turned_broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  // The plan's levels read backwards; rank j owns block j.
  void all_gather(const Plan& plan, const std::byte* source, std::byte* data, std::size_t count, DType dtype);
  // Block j of everybody is combined by rank j: by the levels of an all-gather's plan, each chunk, the same part of
  // every block, as a track; or, where it has one level, at once and in rank order. `scratch` has `scratch_bytes`.
  void reduce_scatter(const Plan& plan, const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op,
                      double factor, std::span<std::byte> scratch);
  static std::size_t scratch_bytes(const Plan& plan, std::size_t count, DType dtype, Op op, int size);
  // At once and in rank order. `scratch` is for PREMUL_SUM only, and as large as the data.
  void reduce(std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
              std::span<std::byte> scratch);
  // A turned broadcast the other way round; `scratch` has `tree_scratch_bytes`.
  void tree_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
                   std::span<std::byte> scratch);
  static std::size_t tree_scratch_bytes(const Plan& plan, std::size_t count, DType dtype);
  // sends[i] goes to rank i and recvs[i] comes from rank i; who takes part follows from the collective.
  void exchange(Collective collective, std::span<const Place> sends, std::span<const Place> recvs, int root);
  // Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 size) rounds.
  void barrier();
  void send(std::byte* data, std::size_t bytes, int peer, std::int32_t tag);
  void receive(std::byte* data, std::size_t bytes, int peer, std::int32_t tag);

 private:
  void add_send(const std::byte* data, std::size_t bytes, int peer);
  void add_receive(std::byte* data, std::size_t bytes, int peer);
  void add_combine(std::byte* to, std::size_t bytes, const std::byte* own, std::span<const int> holders);
  void add_local(Instruction::Kind kind, std::byte* to, const std::byte* from, std::size_t bytes, double factor = 1);
  // This rank's copy of a chunk while it is reduced: in `data`, contiguous, what has been combined, and the rest in
  // `source`, as `rows` say; all of it in `data` if there is no source.
  struct Copy {
    std::byte* data;
    const std::byte* source;
    Rows rows;
    Intervals combined;
  };

  // Makes a track of what lower(begin, elements) adds for each chunk; their lengths differ by one element at most.
  template <typename Lower>
  void cut(const Plan& plan, Chunks chunks, std::size_t count, Lower&& lower) {
    const auto all = static_cast<std::int64_t>(chunks.count);
    program_.in_flight = chunks.in_flight;
    program_.unasked = plan.chunk_bytes > 0;
    for (std::int64_t chunk = 0; chunk < all; ++chunk) {
      const std::size_t begin = Fraction{chunk, all}.of(count);
      lower(begin, Fraction{chunk + 1, all}.of(count) - begin);
      program_.end_track();
    }
  }
  // Where this rank's copy of a range is at this point of the program; brought together if it is in both places.
  const std::byte* own(Copy& copy, std::size_t begin, std::size_t bytes);
  void scatter_half(std::span<const Level> levels, Copy& copy, std::size_t count, DType dtype);
  void scatter_at_once(const std::byte* source, std::byte* to, std::size_t bytes);
  // The plan's levels read backwards: whoever owns a range sends it to whoever held it. Ranks are renumbered so that
  // the plan's rank 0 is `root`.
  void gather_half(std::span<const Level> levels, std::byte* data, Rows rows, std::size_t count, DType dtype, int root);
  // The same tree with another root: the data climb from it to the plan's own, then go down to those who were not on
  // that way. They cross the plan's edges and no other, so that they still enter a machine or a switch only once.
  void turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root);
  // Backwards: what was not on that way is combined upwards into it, then all of that down to the root. This rank's own
  // part lies in `own`; `to` is for what it combines.
  void turned_reduction(const Plan& plan, std::byte* to, const std::byte* own, std::size_t bytes, int root);
  void divide_last(const Plan& plan, std::byte* data, std::size_t count, DType dtype);
  // The last level where every holder combines for itself.
  void one_shot(const Level& level, std::byte* data, std::size_t count, DType dtype);

  Program& program_;
  const int rank_;
  const int size_;
  std::vector<std::int32_t> sent_;
  std::vector<std::int32_t> received_;
};

}  // namespace paceline
