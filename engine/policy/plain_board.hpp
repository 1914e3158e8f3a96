// A board in plain memory, for ranks that live in one thread: tests, simulation.
#pragma once

#include <algorithm>
#include <deque>

#include "policy/board_memory.hpp"

namespace paceline {

class PlainBoard : public BoardMemory {
 public:
  // The log has room for so many `words` that not all ranks have read.
  PlainBoard(int ranks, std::uint32_t slots, std::size_t words)
      : slots_(slots), words_(words), joined_(static_cast<std::size_t>(ranks)), read_(joined_.size()) {}

  int ranks() const override { return static_cast<int>(joined_.size()); }
  std::uint32_t slots() const override { return slots_; }
  std::size_t longest() const override { return words_ / 4; }

  void mark(std::uint32_t slot, int rank, std::uint64_t word) override {
    if (slot >= claimed_.size()) {
      claimed_.resize(slot + 1);
      marks_.resize((slot + std::size_t{1}) * joined_.size());
    }
    marks_[slot * joined_.size() + static_cast<std::size_t>(rank)] = word;
  }
  std::uint64_t marked(std::uint32_t slot, int rank) const override {
    return slot < claimed_.size() ? marks_[slot * joined_.size() + static_cast<std::size_t>(rank)] : 0;
  }
  bool claim(std::uint32_t slot, std::uint32_t round) override {
    if (slot >= claimed_.size()) mark(slot, 0, 0);
    if (static_cast<std::int32_t>(round - claimed_[slot]) <= 0) return false;
    claimed_[slot] = round;
    return true;
  }

  void join(int rank, std::uint64_t word) override { joined_[static_cast<std::size_t>(rank)] = word; }
  std::uint64_t joined(int rank) const override { return joined_[static_cast<std::size_t>(rank)]; }

  void want(bool begins) override { wanted_ += begins ? 1 : -1; }
  bool wanted() const override { return wanted_ > 0; }

  bool append(std::span<const std::uint64_t> entry) override {
    if (log_.size() + entry.size() > words_) forget();
    if (log_.size() + entry.size() > words_) return false;
    log_.insert(log_.end(), entry.begin(), entry.end());
    return true;
  }
  bool read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) override;

 private:
  void forget() {
    const std::uint64_t all_have_read = *std::ranges::min_element(read_);
    log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(all_have_read - begin_));
    begin_ = all_have_read;
  }

  const std::uint32_t slots_;
  const std::size_t words_;
  std::vector<std::uint64_t> joined_;
  int wanted_ = 0;
  std::vector<std::uint64_t> read_;  // each rank's place in the log
  std::vector<std::uint32_t> claimed_;
  std::vector<std::uint64_t> marks_;
  std::deque<std::uint64_t> log_;
  std::uint64_t begin_ = 0;  // position of the log's first word
};

}  // namespace paceline
