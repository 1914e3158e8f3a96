// Collectives that move data among the ranks of one machine and combine nothing: each rank tells the others where they
// find the data that it has for them, and each fetches its own.
//
// Private data are copied to the segment's slot, so that the others find them in the caches; large data pass through it
// in portions, and for small data no rank waits. Data in an arena are read where they are. So are large private data,
// by process_vm_readv, if every rank has some for another one and the kernel allows it. There is one copy and no
// contention at a root, as S. Chakraborty, H. Subramoni, D. K. Panda, "Contention-Aware Kernel-Assisted MPI Collectives
// for Multi-/Many-core Systems", CLUSTER 2017, ask for: rank i begins with the data of rank i+1.
#pragma once

#include "program/flow.hpp"
#include "shared/shared_operation.hpp"

namespace paceline {

class SharedExchange final : public SharedOperation {
 public:
  // For each rank, the data that this rank has for it, and where the data go that it has for this rank. The same block
  // may be for several ranks.
  std::vector<Place> sends;
  std::vector<Place> recvs;

  bool read_remotely() const override { return read_remotely_; }

 protected:
  void clear() override;
  void give(Cell& own) override;
  bool runs_ahead() const override { return what.root >= 0 && given_bytes() <= segment_->small_bytes(); }
  // A rank that fills a slot waits for its readers to follow, so that they find the data in the caches.
  bool needs(int rank) const override {
    return has_for(rank, segment_->rank()) || (fills() && has_for(segment_->rank(), rank));
  }
  bool awaited() const override { return what.root == segment_->rank(); }
  Result work() override;
  std::vector<int> behind() const override;

 private:
  bool has_for(int from, int to) const { return flows(what.collective, what.root, from, to); }
  std::size_t given_bytes() const;
  bool uses_slot(std::size_t all) const;
  void show(Block& block, const Place& place, bool in_portions);
  bool fills() const { return fill_ < fills_.size(); }
  bool fill(std::size_t most);
  bool vacant(std::size_t end) const;
  std::size_t there(int rank, const Block& block) const;
  bool unread(int rank) const;
  Result fetch_from(int rank);
  void keep_own();

  // A block that goes to the slot behind so many bytes.
  struct Fill {
    std::size_t behind;
    Place what;
  };

  std::byte* slot_ = nullptr;
  std::vector<Fill> fills_;
  std::size_t fill_ = 0;       // the first block that is not in the slot yet
  std::size_t fill_done_ = 0;  // its bytes that are
  std::size_t slot_used_ = 0;
  std::size_t unit_ = 0;  // bytes: see Block
  bool exposed_ = false;  // others read this rank's buffers, so it waits until they have
  bool read_remotely_ = false;
  std::vector<std::size_t> fetched_;  // bytes, by rank
  bool told_ = false;                 // this rank has told the others that it has read all of their data
};

}  // namespace paceline
