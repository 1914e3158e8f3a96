// A collective among the ranks of one machine, as an epoch of the segment that they share: each rank shows its data,
// and all ranks work in that memory. No message is sent.
#pragma once

#include "execute/operation.hpp"
#include "segment/segment.hpp"

namespace paceline {

class SharedOperation : public Operation {
 public:
  bool step() final;
  bool complete() const final { return phase_ == Phase::complete; }
  std::vector<int> missing() const final;
  std::vector<int> absent() const final;
  bool has_work() const final;
  bool needs_links() const final { return segment_ == nullptr || !segment_->ready() || gone_ >= 0; }
  int neighbour() const final;
  bool crowded(const cpu_set_t& cpus) const final;

 protected:
  enum class Result : std::uint8_t { waits, moved, complete };

  void begin() final;
  void end() override { segment_->finish(epoch_); }
  void let_go(const Error&) override { segment_->end(Ending::failed); }
  void clear() override;

  // Puts the data of this rank where the others see them: into its cell, its slot, or its arena.
  virtual void give(Cell& own) = 0;
  // Whether the data go to a small slot, if to any: some ranks need not wait for all, and the data are few.
  virtual bool runs_ahead() const { return false; }
  // Whether it waits for this rank to begin, and whether other ranks wait for this rank alone.
  virtual bool needs(int rank) const = 0;
  virtual bool awaited() const { return false; }
  // All ranks that it needs have begun: moves on by a bounded amount of work.
  virtual Result work() = 0;
  // The ranks that `work` waits for, by their place in the segment.
  virtual std::vector<int> behind() const { return {}; }

  // Whether all ranks that it needs are still in this epoch, so that what was read from their memory counts.
  bool stands() const;
  // Whether the others see this rank's data.
  bool shown() const { return phase_ != Phase::entering; }
  // Reads memory of the process of `rank`. Returns false, and notes trouble, if that process is gone.
  bool read_from(int rank, std::uint64_t address, std::byte* to, std::size_t bytes);
  // Notes trouble: `rank` names memory that it does not have.
  Result refuse(int rank);

  SharedSegment* segment_ = nullptr;
  std::uint64_t epoch_ = 0;

 private:
  enum class Phase : std::uint8_t { entering, gathering, working, complete };

  bool enter();
  bool gather();
  bool met(int rank, std::uint64_t epoch);
  bool agree(int rank, std::uint64_t epoch);
  void look_for_ended();
  // The epoch that all ranks must have begun before this rank may begin its own.
  std::uint64_t entry() const;
  std::uint64_t last_whole_epoch() const;
  std::vector<int> absent_from(std::uint64_t epoch) const;

  Phase phase_ = Phase::entering;
  int next_ = 0;   // all ranks before this one have begun, or need not
  int gone_ = -1;  // a rank that it needs and that has failed; why follows over the link
};

}  // namespace paceline
