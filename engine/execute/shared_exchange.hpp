// Collectives that move data among the ranks of one machine and combine nothing: each rank tells where the others find
// what it has for them, and everybody fetches its own.
//
// What is small waits in the lane's slot, so that nobody waits until it was fetched. What lies in an arena is read
// where it is; what does not, too, by process_vm_readv, or else from a copy in the arena where the kernel forbids that.
// One copy and no contention at a root, as S. Chakraborty, H. Subramoni, D. K. Panda, "Contention-Aware Kernel-Assisted
// MPI Collectives for Multi-/Many-core Systems", CLUSTER 2017, ask for: rank i begins with what rank i+1 has.
#pragma once

#include "execute/flow.hpp"
#include "execute/shared_operation.hpp"

namespace paceline {

class SharedExchange final : public SharedOperation {
 public:
  // By rank: what this rank has for it, and where what it has goes. The same block may be for several.
  std::vector<Place> sends;
  std::vector<Place> recvs;

  bool read_remotely() const override { return read_remotely_; }

 protected:
  void clear() override;
  void give(Cell& own) override;
  bool runs_ahead() const override { return what.root >= 0 && given_bytes() <= lane_->small_bytes(); }
  bool needs(int rank) const override { return has_for(rank, lane_->rank()); }
  bool awaited() const override { return what.root == lane_->rank(); }
  Result work() override;
  void end() override;
  void let_go(const Error&) override { give_back(); }
  std::vector<int> behind() const override;

 private:
  bool has_for(int from, int to) const { return flows(what.collective, what.root, from, to); }
  std::size_t given_bytes() const;
  Block show(int rank, std::byte* slot);
  bool fetch_from(int rank);
  void keep_own();
  void give_back();

  std::vector<std::byte*> copies_;  // in the arena, of what nobody can read
  std::size_t slot_used_ = 0;
  bool exposed_ = false;  // others read this rank's buffers: it waits until they have
  bool read_remotely_ = false;
  int step_ = 1;  // fetches from the rank so many after this one
  std::size_t fetched_ = 0;
};

}  // namespace paceline
