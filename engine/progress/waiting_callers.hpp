// The callers that wait for an operation, and the time in which at least one has: the program does nothing else then.
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
  // For a wait too short to enter: no other caller waits.
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
  std::chrono::nanoseconds exposed_{};  // until `until_`
  Clock::time_point until_ = Clock::now();
};

}  // namespace paceline
