// The callers that wait for an operation, and the time in which at least one has waited, when the program did nothing
// else.
#pragma once

#include <chrono>

#include "execute/operation.hpp"

namespace paceline {

class WaitingCallers {
 public:
  int count() const { return count_; }
  void enter() {
    settle();
    ++count_;
  }
  void leave() {
    settle();
    --count_;
  }
  // Adds a wait too short to enter, in which no other caller waited.
  void add(std::chrono::nanoseconds time) { exposed_ += time; }
  std::chrono::nanoseconds exposed() {
    settle();
    return exposed_;
  }

 private:
  void settle() {
    const auto now = Clock::now();
    if (count_ > 0) exposed_ += now - until_;
    until_ = now;
  }

  int count_ = 0;
  std::chrono::nanoseconds exposed_{};  // up to `until_`
  Clock::time_point until_ = Clock::now();
};

}  // namespace paceline
