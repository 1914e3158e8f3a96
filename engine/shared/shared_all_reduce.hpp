// Large all-reduces in memory that ranks share. Rank i's region is the i-th part of the buffer.
//
// In place, where every rank's buffer lies in an arena: regions are cut in pieces, whoever has the time takes one on,
// combines all ranks' copies of it in one pass and writes the result into all of them. Each rank begins with its own
// region and then helps the others: a rank that has no core when the last one arrives is not waited for.
//
// Staged, where some buffer is private: in rounds, each over one block of every region. A rank copies its blocks of the
// other regions to its pipe, combines everybody's copies of its own block into its buffer and its pipe, and takes the
// other results from their pipes. The pipe holds several rounds, so that ranks need not run in step, and goes round, so
// that what is written to has left the others' caches.
//
// Fetched, where some buffer is private and all may read each other's memory: each rank combines its region, whose
// other copies it reads where they lie (process_vm_readv), and then reads the others' results. Nobody waits for another
// one in between, so a rank without a core holds nobody up.
//
// MethodTuner finds out by trying which of the last two is faster, and with which block size.
//
// This is the shared-address-space reduction of MVAPICH2-X (Hashmi et al., IPDPS 2018), without XPMEM.
#pragma once

#include "kernel/types.hpp"
#include "segment/method_tuner.hpp"
#include "shared/shared_operation.hpp"

namespace paceline {

class SharedAllReduce final : public SharedOperation {
 public:
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  double factor = 1;  // of this rank's copy, before it is combined
  Fold fold{DType::uint8, Op::sum};

  bool read_remotely() const override { return how_ == How::fetched; }

 protected:
  void clear() override;
  void give(Cell& own) override;
  bool needs(int) const override { return true; }
  Result work() override;
  void let_go(const Error&) override;
  std::vector<int> behind() const override;

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t size() const { return end - begin; }
  };

  void choose();
  Range region(int rank) const;
  std::uint64_t now(std::size_t done) const { return SharedSegment::progress(epoch_, done); }

  Result work_in_place();
  std::size_t pieces(int rank) const;
  bool claim(int& rank, std::size_t& piece);
  void combine_piece(int rank, std::size_t piece);
  bool all_finished() const;

  Result work_staged();
  Range block(int rank, std::size_t round) const;
  std::byte* place(int holder, int rank, std::size_t round) const;
  bool everybody(Counter SegmentMemory::* counter, std::size_t done) const;
  void stage();
  void reduce();
  void take();

  Result work_fetched();
  bool fetch(int rank, const Range& part, std::byte* to);
  // What this rank has taken at the end: rounds, where it fetches of each other rank's region.
  std::size_t all_taken() const {
    return how_ == How::fetched ? rounds_ * static_cast<std::size_t>(segment_->size() - 1) : rounds_;
  }

  enum class How : std::uint8_t { open, in_place, staged, fetched };
  How how_ = How::open;
  Method method_;          // that the first rank wants, where not all buffers are shared
  bool measures_ = false;  // this rank, the first, measures it
  Clock::time_point chosen_;
  std::vector<std::byte*> copies_;        // every rank's buffer; null where it is private
  std::vector<std::uint64_t> addresses_;  // of every rank's buffer in its own process; 0 where nobody may read it
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::size_t piece_bytes_ = 0;
  std::size_t all_pieces_ = 0;
  std::size_t done_ = 0;  // pieces that this rank combined and has yet to report
  std::size_t block_bytes_ = 0;
  std::size_t rounds_ = 0;
  std::size_t first_ = 0;  // the place of round 0 in the pipes,
  std::size_t held_ = 0;   // which hold so many rounds
  std::size_t staged_ = 0;
  std::size_t reduced_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace paceline
