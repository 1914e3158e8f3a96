// What is due at a certain time: the end of an operation that takes too long, and a report from one that takes long.
#pragma once

#include <string>

#include "progress/active_operations.hpp"
#include "progress/culprits.hpp"
#include "progress/failures.hpp"
#include "progress/peers.hpp"
#include "progress/waits.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

class Deadlines {
 public:
  Deadlines(const ActiveOperations& operations, const Peers& peers, Whereabouts& whereabouts, const Waits& waits,
            Culprits& culprits, Failures& failures)
      : operations_(operations),
        peers_(peers),
        whereabouts_(whereabouts),
        waits_(waits),
        culprits_(culprits),
        failures_(failures) {}

  // Does what is due.
  void check();
  // When something is due next; no later than Sleepers::kLongestPark from now.
  Clock::time_point next() const;

 private:
  void forgive_pause(Clock::time_point now);
  void time_out(const Operation& operation);
  std::string words_for(const Blame& blame, const Group& group) const;
  bool is_oldest(std::size_t index) const;

  const ActiveOperations& operations_;
  const Peers& peers_;
  Whereabouts& whereabouts_;
  const Waits& waits_;
  Culprits& culprits_;
  Failures& failures_;
  Clock::time_point checked_ = Clock::now();  // the last time
};

}  // namespace paceline
