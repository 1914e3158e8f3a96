// Large all-reduces in memory that ranks share. The i-th part of the buffer is the region of rank i.
//
// In place, if every rank's buffer lies in an arena and gets the result: regions are cut in pieces. A rank that has the
// time takes a piece, combines all ranks' copies of it in one pass, and writes the result into all of them. Each rank
// begins with its own region and then helps the others, so that nobody waits for a rank that has no core when the last
// one arrives.
//
// Staged otherwise: in rounds, each over one block of every region. A rank copies its blocks of the
// other regions to its pipe, combines all ranks' copies of its own block into its result and its pipe, and takes the
// other results from the other pipes. The pipe holds several rounds, so that ranks need not run in step. It goes round,
// so that memory has left the caches of other ranks before it is written to again.
//
// Fetched, also where it is not in place, if all ranks may read each other's memory: each rank combines its region, the
// other copies of which it reads where they lie (process_vm_readv), and then reads the results of the others. No rank
// waits for another one in between, so a rank without a core holds nobody up.
//
// MethodTuner finds out by trying which of the last two is faster, and with which block size.
//
// This is the shared-address-space reduction of MVAPICH2-X (Hashmi et al., IPDPS 2018), without XPMEM.
#pragma once

#include "segment/method_tuner.hpp"
#include "shared/shared_operation.hpp"
#include "types/elements.hpp"

namespace paceline {

class SharedAllReduce final : public SharedOperation {
 public:
  const std::byte* source = nullptr;  // the same as `to`, or apart from it
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  double factor = 1;  // this rank's copy is multiplied by it before it is combined
  Fold fold{DType::uint8, Op::sum};

  bool read_remotely() const override { return how_ == How::fetched; }

 protected:
  void clear() override;
  void give(Cell& own) override;
  bool needs(int) const override { return true; }
  Result work() override;
  void let_go(const Error& error) override;
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
  void withdraw();

  Result work_staged();
  Range block(int rank, std::size_t round) const;
  std::byte* place(int holder, int rank, std::size_t round) const;
  bool everybody(Counter SegmentMemory::* counter, std::size_t done) const;
  void stage();
  void reduce();
  void take();

  Result work_fetched();
  bool fetch(int rank, const std::vector<std::uint64_t>& from, const Range& part, std::byte* into);
  // How many rounds of results this rank has taken, or, if it fetches, how much of each other rank's region.
  std::size_t all_taken() const {
    return how_ == How::fetched ? rounds_ * static_cast<std::size_t>(segment_->size() - 1) : rounds_;
  }

  enum class How : std::uint8_t { open, in_place, staged, fetched };
  How how_ = How::open;
  Method method_;          // the one that the first rank wants, if not all buffers are shared
  bool measures_ = false;  // this rank is the first one, and measures the method
  Clock::time_point chosen_;
  std::vector<std::byte*> copies_;      // the buffers of all ranks; null for one that is private
  std::vector<std::uint64_t> sources_;  // addresses in the ranks' processes; 0 for one that nobody may read
  std::vector<std::uint64_t> results_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::size_t piece_bytes_ = 0;
  std::size_t all_pieces_ = 0;
  std::size_t done_ = 0;  // pieces that this rank combined and has yet to report
  std::size_t block_bytes_ = 0;
  std::size_t rounds_ = 0;
  std::size_t first_ = 0;  // the place of round 0 in the pipes
  std::size_t held_ = 0;   // the rounds that a pipe holds
  std::size_t staged_ = 0;
  std::size_t reduced_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace paceline
