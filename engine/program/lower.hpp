// Lowers a collective and a plan to this rank's program.
#pragma once

#include <span>

#include "program/flow.hpp"
#include "program/intervals.hpp"
#include "program/plan.hpp"
#include "program/rows.hpp"
#include "program/writer.hpp"

namespace paceline {

// With a codec, what crosses from one machine to another is encoded. A rank encodes each element at most once: its part
// of a sum where that leaves for another machine, or the outcome where it is the last to combine it. From there the
// encoded bytes are passed on as they are, and all ranks decode them, so that all end with the same bits.
class Lowering : private ProgramWriter {
 public:
  using ProgramWriter::ProgramWriter;

  // Does a reduce-scatter by the plan's levels, then their mirror image, in which a last level in one shot has no part.
  // Each chunk is a track.
  // Does the levels from `first` on; the levels before are done by other means.
  void all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                  std::size_t first = 0);
  // Does the plan's levels backwards; each chunk is a track. For another root than 0, ranks are counted from the root
  // on; see also TreeLowering.
  void broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  // Does the plan's levels backwards; rank j owns block j.
  void all_gather(const Plan& plan, const std::byte* source, std::byte* data, std::size_t count, DType dtype);
  // Rank j combines block j of all ranks, by the levels of an all-gather's plan. Each chunk, which is the same part of
  // every block, is a track. A plan of one level is done at once and in rank order. `scratch` has `scratch_bytes`.
  void reduce_scatter(const Plan& plan, const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op,
                      double factor, std::span<std::byte> scratch);
  static std::size_t scratch_bytes(const Plan& plan, std::size_t count, DType dtype, Op op, int size);
  // Combines at once and in rank order. `scratch` is for PREMUL_SUM only, and as large as the data.
  void reduce(std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
              std::span<std::byte> scratch);
  // sends[i] goes to rank i and recvs[i] comes from rank i. The collective tells which ranks take part.
  void exchange(Collective collective, std::span<const Place> sends, std::span<const Place> recvs, int root);
  // Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 size) rounds.
  void barrier();

 private:
  // This rank's copy of a chunk while it is reduced: the combined part is contiguous in `data`, the rest is in
  // `source`, as `rows` say. Without a source all of it is in `data`.
  struct Copy {
    std::byte* data;
    const std::byte* source;
    Rows rows;
    std::byte* residual;  // of the chunk, in rows like `source`
    Intervals combined;
  };

  // Returns where this rank's copy of a range is at this point of the program. If it is in both places, it is brought
  // together first.
  const std::byte* own(Copy& copy, std::size_t begin, std::size_t bytes);
  void scatter_half(std::span<const Level> levels, Copy& copy, std::size_t count, DType dtype);
  void scatter_at_once(const std::byte* source, std::byte* to, std::size_t bytes);
  // Does the plan's levels backwards: the owner of a range sends it to its holders. Ranks are renumbered so that the
  // plan's rank 0 is `root`.
  void gather_half(std::span<const Level> levels, std::byte* data, Rows rows, std::size_t count, DType dtype, int root,
                   std::byte* residual = nullptr);
  void divide_last(const Plan& plan, std::byte* data, std::size_t count, DType dtype);
  // Does the last level, in which every holder combines for itself.
  void one_shot(const Level& level, std::byte* data, std::size_t count, DType dtype);
};

}  // namespace paceline
