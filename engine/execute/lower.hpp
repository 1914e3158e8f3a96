// From a collective and a plan to this rank's program.
#pragma once

#include <span>

#include "execute/flow.hpp"
#include "execute/plan.hpp"
#include "execute/program.hpp"

namespace paceline {

// Builds the program of rank `rank` of `size`; the tags count the messages from one rank to another, chunk by chunk,
// and both ends count alike because both walk the same plan.
class Lowering {
 public:
  Lowering(Program& program, int rank, int size);

  // Reduce-scatter by the plan's levels, then their mirror image; each chunk is a track.
  void all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor);
  // The plan's levels read backwards; each chunk is a track. From another root than 0 ranks count on from it, or the
  // same tree is turned.
  void broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  void turned_broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  void all_gather(const Plan& plan, const std::byte* source, std::byte* data, std::size_t count, DType dtype);
  // Block j of everybody is combined by rank j: by the levels of an all-gather's plan, in which rank j owns block j, in
  // `scratch` (size·count elements); or, where it has one level, at once and in rank order, for which `scratch` is
  // used by PREMUL_SUM only.
  void reduce_scatter(const Plan& plan, const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op,
                      double factor, std::byte* scratch);
  void reduce(std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root, std::byte* scratch);
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
  template <typename Lower>
  void cut(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Lower&& lower);
  void scatter_half(const Plan& plan, std::byte* data, std::size_t count, DType dtype);
  // The plan's levels read backwards: whoever owns a range sends it to whoever held it. Ranks are renumbered so that
  // the plan's rank 0 is `root`.
  void gather_half(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root);
  // The same tree with another root: the data climb from it to the plan's own, then go down to those who were not on
  // that way. They cross the plan's edges and no other, so that they still enter a machine or a switch only once.
  void turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root);
  void divide_owned(const Plan& plan, std::byte* data, std::size_t count, DType dtype);
  void one_shot(std::byte* data, std::size_t bytes);

  Program& program_;
  const int rank_;
  const int size_;
  std::vector<std::int32_t> sent_;
  std::vector<std::int32_t> received_;
};

}  // namespace paceline
