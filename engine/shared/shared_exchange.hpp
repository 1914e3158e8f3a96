// Collectives that move data among the ranks of one machine and combine nothing: each rank tells where the others find
// what it has for them, and everybody fetches its own.
//
// What is private is copied to the segment's slot, in portions and round and round where it is large, so that the
// others find it in the caches; what is small nobody waits for. What lies in an arena is read where it is. Large data
// that everybody has for somebody are read where they are, too, by process_vm_readv, if the kernel allows it. One copy
// and no contention at a root, as S. Chakraborty, H. Subramoni, D. K. Panda, "Contention-Aware Kernel-Assisted MPI
// Collectives for Multi-/Many-core Systems", CLUSTER 2017, ask for: rank i begins with what rank i+1 has.
#pragma once

#include "program/flow.hpp"
#include "shared/shared_operation.hpp"

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
  bool runs_ahead() const override { return what.root >= 0 && given_bytes() <= segment_->small_bytes(); }
  // Who fills a slot waits for those who follow, so that they find it in the caches.
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

  // What goes to the slot behind so many bytes.
  struct Fill {
    std::size_t behind;
    Place what;
  };

  std::byte* slot_ = nullptr;
  std::vector<Fill> fills_;
  std::size_t fill_ = 0;       // all before this one are done
  std::size_t fill_done_ = 0;  // bytes of this one
  std::size_t slot_used_ = 0;
  bool exposed_ = false;  // others read this rank's buffers: it waits until they have
  bool read_remotely_ = false;
  std::vector<std::size_t> fetched_;  // bytes, by rank
  bool told_ = false;                 // the others, that all of theirs has been read
};

}  // namespace paceline
