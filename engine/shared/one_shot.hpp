// Small collectives in one step: every rank shows everything that it has, and every rank takes what it needs.
#pragma once

#include "shared/shared_operation.hpp"
#include "types/elements.hpp"

namespace paceline {

class OneShot final : public SharedOperation {
 public:
  enum class Take : std::uint8_t {
    nothing,
    combined,    // `bytes` at `offset` of all ranks' parts, combined in rank order
    everything,  // the parts of `bytes` of all ranks, one after the other
    roots,       // the root's part
  };

  const std::byte* given = nullptr;  // null if this rank gives nothing
  std::size_t given_bytes = 0;       // at most kOneShotBytes
  double factor = 1;                 // what is given is multiplied by this
  Take take = Take::nothing;
  std::byte* to = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  Fold fold{DType::uint8, Op::sum};
  bool everybody = true;  // it waits for all ranks; else for the root alone, if it takes anything
  int root = -1;          // the root's place in the segment; -1 if there is none

 protected:
  void clear() override;
  void give(Cell& own) override;
  bool runs_ahead() const override { return root >= 0 && given_bytes <= segment_->small_bytes(); }
  bool needs(int rank) const override { return everybody || (take == Take::roots && rank == root); }
  bool awaited() const override { return root == segment_->rank(); }
  Result work() override;

 private:
  const std::byte* part_of(int rank) const;

  std::vector<const std::byte*> inputs_;
};

}  // namespace paceline
