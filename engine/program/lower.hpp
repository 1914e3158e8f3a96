// Lowers a collective and a plan to this rank's program.
#pragma once

#include <span>

#include "program/coding.hpp"
#include "program/flow.hpp"
#include "program/intervals.hpp"
#include "program/pass.hpp"
#include "program/plan.hpp"
#include "program/program.hpp"
#include "program/rows.hpp"

namespace paceline {

// Builds the program of rank `rank` of `size`. Tags count the messages from one rank to another, chunk by chunk; both
// ends count alike, because both walk the same plan.
//
// With a codec, what crosses from one machine to another is encoded. A rank encodes each element at most once: its part
// of a sum where that leaves for another machine, or the outcome where it is the last to combine it. From there the
// encoded bytes are passed on as they are, and all ranks decode them, so that all end with the same bits.
class Lowering {
 public:
  Lowering(Program& program, int rank, int size, const Coding& coding = {});

  // Does a reduce-scatter by the plan's levels, then their mirror image, in which a last level in one shot has no part.
  // Each chunk is a track.
  // Does the levels from `first` on; the levels before are done by other means.
  void all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                  std::size_t first = 0);
  // Does the plan's levels backwards; each chunk is a track. For another root than 0, ranks are counted from the root
  // on, or the same tree is turned.
  void broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  void turned_broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
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
  // Does a turned broadcast the other way round. `scratch` has `tree_scratch_bytes`.
  void tree_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
                   std::span<std::byte> scratch);
  static std::size_t tree_scratch_bytes(const Plan& plan, std::size_t count, DType dtype);
  // sends[i] goes to rank i and recvs[i] comes from rank i. The collective tells which ranks take part.
  void exchange(Collective collective, std::span<const Place> sends, std::span<const Place> recvs, int root);
  // Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 size) rounds.
  void barrier();

 private:
  void add_send(const std::byte* data, std::size_t bytes, int peer);
  void add_receive(std::byte* data, std::size_t bytes, int peer);
  void add_combine(std::byte* to, std::size_t bytes, const std::byte* own, std::span<const int> holders);
  // Into a slot of its own, which is returned; and back to `to`, if that is given.
  int add_encode(const std::byte* from, std::size_t bytes, std::byte* residual, std::byte* to = nullptr);
  void add_encoded_send(int slot, int peer);
  // Receives what is then decoded to `to`; returns its slot.
  int add_decode(std::byte* to, std::size_t bytes, int peer);
  int add_slot(std::size_t bytes);
  void add_local(Instruction::Kind kind, std::byte* to, const std::byte* from, std::size_t bytes, double factor = 1);
  // This rank's copy of a chunk while it is reduced: the combined part is contiguous in `data`, the rest is in
  // `source`, as `rows` say. Without a source all of it is in `data`.
  struct Copy {
    std::byte* data;
    const std::byte* source;
    Rows rows;
    std::byte* residual;  // of the chunk, in rows like `source`
    Intervals combined;
  };

  // Makes a track of what lower(begin, elements) adds for each chunk. Chunks differ by one element at most.
  template <typename Lower>
  void cut(const Plan& plan, Chunks chunks, std::size_t count, Lower&& lower) {
    const auto all = static_cast<std::int64_t>(chunks.count);
    program_.in_flight = chunks.in_flight;
    program_.unasked = plan.chunk_bytes > 0;
    for (std::int64_t chunk = 0; chunk < all; ++chunk) {
      const std::size_t begin = Fraction{chunk, all}.of(count);
      lower(begin, Fraction{chunk + 1, all}.of(count) - begin);
      end_track();
    }
  }
  // Returns where this rank's copy of a range is at this point of the program. If it is in both places, it is brought
  // together first.
  const std::byte* own(Copy& copy, std::size_t begin, std::size_t bytes);
  void scatter_half(std::span<const Level> levels, Copy& copy, std::size_t count, DType dtype);
  void scatter_at_once(const std::byte* source, std::byte* to, std::size_t bytes);
  // Does the plan's levels backwards: the owner of a range sends it to its holders. Ranks are renumbered so that the
  // plan's rank 0 is `root`.
  void gather_half(std::span<const Level> levels, std::byte* data, Rows rows, std::size_t count, DType dtype, int root,
                   std::byte* residual = nullptr);
  // Uses the same tree with another root: the data climb from it to the plan's own root, then go down to the ranks that
  // were not on that way. They cross the edges of the plan alone, so they still enter a machine or a switch only once.
  void turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root);
  void end_track();
  // Sends and receives what `passes` say, the stages one after the other. Where data cross from one machine to another,
  // or will cross later, they go as the bytes that the rank which had them first has encoded.
  void pass_on(const Passes& passes, std::byte* data, std::byte* residual, Rows rows);
  // Returns how a buffer of so many bytes is cut: an encoded chunk keeps a link busy for as long as any other.
  Chunks chunks_of(const Plan& plan, std::size_t bytes) const;
  // The same backwards: data of ranks that were not on that way are combined upwards into it, then everything goes down
  // to the root. This rank's own part lies in `own`, and what it combines goes to `to`.
  void turned_reduction(const Plan& plan, std::byte* to, const std::byte* own, std::size_t bytes, int root);
  void divide_last(const Plan& plan, std::byte* data, std::size_t count, DType dtype);
  // Does the last level, in which every holder combines for itself.
  void one_shot(const Level& level, std::byte* data, std::size_t count, DType dtype);

  Program& program_;
  const int rank_;
  const int size_;
  const Coding coding_;
  std::size_t slot_bytes_ = 0;  // of the track under construction
  std::vector<std::int32_t> sent_;
  std::vector<std::int32_t> received_;
};

}  // namespace paceline
