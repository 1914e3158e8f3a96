// The first error of this process, in any group. The first error wins: later ones most likely follow from it.
#pragma once

#include "execute/operation.hpp"

namespace paceline {

class FirstError {
 public:
  void note(const Error& error) {
    if (error_) return;
    error_ = error;
    at_ = Clock::now();
  }
  const Error& error() const { return error_; }
  // The error that a failure of the rank `description` follows from, if the failure is noticed now; empty if there is
  // none.
  Error cause_of_failure(const std::string& description) const {
    return Clock::now() - at_ < kAftermath && error_.culprit != description ? error_ : Error();
  }

 private:
  // A rank that dies this soon after an error most likely dies because of it.
  static constexpr auto kAftermath = std::chrono::seconds(10);

  Error error_;
  Clock::time_point at_;
};

}  // namespace paceline
