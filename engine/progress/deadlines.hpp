// What is due at a certain time: the end of an operation that takes too long, and a report from one that takes long.
#pragma once

#include "progress/active_operations.hpp"
#include "progress/failures.hpp"
#include "progress/waits.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

class Deadlines {
 public:
  Deadlines(const ActiveOperations& operations, Whereabouts& whereabouts, const Waits& waits, Failures& failures)
      : operations_(operations), whereabouts_(whereabouts), waits_(waits), failures_(failures) {}

  // Does what is due.
  void check();
  // When something is due next; no later than Sleepers::kLongestPark from now.
  Clock::time_point next() const;

 private:
  void forgive_pause(Clock::time_point now);
  void time_out(const Operation& operation);
  bool is_oldest(std::size_t index) const;

  const ActiveOperations& operations_;
  Whereabouts& whereabouts_;
  const Waits& waits_;
  Failures& failures_;
  Clock::time_point checked_ = Clock::now();  // the last time
};

}  // namespace paceline
