// The synchronisations of a job: all ranks give words, and all get their combination.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include "policy/policy.hpp"

namespace paceline::simulate {

class Meetings {
 public:
  struct Meeting {
    std::vector<std::uint64_t> words;
    Synchronise::Combine combine = Synchronise::Combine::band;
    int given = 0;
    int told = 0;
    double over = 0;  // seconds: when the last rank gave its words, and then when the outcome is there
  };

  // Each takes `seconds` from the last rank's words on.
  Meetings(std::size_t size, double seconds) : gave_(size), seconds_(seconds) {}

  // A rank gives its words to its next meeting. Returns whether it was the last one, so that the time of the outcome is
  // known.
  bool give(int rank, Synchronise& action, double now) {
    const std::uint64_t place = gave_[static_cast<std::size_t>(rank)]++ - first_;
    if (place == meetings_.size()) meetings_.push_back({std::move(action.words), action.combine, 0, 0, 0});
    Meeting& meeting = meetings_[static_cast<std::size_t>(place)];
    if (meeting.given > 0) {
      if (meeting.words.size() != action.words.size() || meeting.combine != action.combine)
        throw std::logic_error("ranks synchronise words of different number or kind");
      for (std::size_t i = 0; i < meeting.words.size(); ++i)
        meeting.words[i] = action.combine == Synchronise::Combine::band ? meeting.words[i] & action.words[i]
                                                                        : std::min(meeting.words[i], action.words[i]);
    }
    meeting.over = std::max(meeting.over, now);
    if (++meeting.given < size()) return false;
    meeting.over += seconds_;
    return true;
  }

  // The meeting that a rank gave words to last.
  const Meeting& last(int rank) const {
    return meetings_[static_cast<std::size_t>(gave_[static_cast<std::size_t>(rank)] - 1 - first_)];
  }
  bool complete(int rank) const { return last(rank).given == size(); }

  // Takes the outcome of that meeting for a rank.
  std::vector<std::uint64_t> tell(int rank) {
    Meeting& meeting = meetings_[static_cast<std::size_t>(gave_[static_cast<std::size_t>(rank)] - 1 - first_)];
    std::vector<std::uint64_t> words = ++meeting.told == size() ? std::move(meeting.words) : meeting.words;
    for (; !meetings_.empty() && meetings_.front().told == size(); ++first_) meetings_.pop_front();
    return words;
  }

 private:
  int size() const { return static_cast<int>(gave_.size()); }

  std::deque<Meeting> meetings_;
  std::uint64_t first_ = 0;          // the number of the first of them
  std::vector<std::uint64_t> gave_;  // by rank: how many times
  const double seconds_;
};

}  // namespace paceline::simulate
