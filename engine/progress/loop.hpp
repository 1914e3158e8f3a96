// One pass of the loop: take in what has arrived, and move every operation on.
#pragma once

#include "progress/active_operations.hpp"
#include "progress/deadlines.hpp"
#include "progress/failures.hpp"
#include "progress/guests.hpp"
#include "progress/peers.hpp"
#include "progress/sockets.hpp"

namespace paceline {

class Loop {
 public:
  Loop(const Peers& peers, Sockets& sockets, Inbox& inbox, ActiveOperations& operations, Failures& failures,
       Deadlines& deadlines, Guests& guests)
      : peers_(peers),
        sockets_(sockets),
        inbox_(inbox),
        operations_(operations),
        failures_(failures),
        deadlines_(deadlines),
        guests_(guests) {}

  // One pass, by the thread that has this meter. Returns true if anything moved.
  bool pass(CpuMeter& meter);
  // Takes in what has arrived in shared memory. Returns true if anything has.
  bool poll_links();
  // Moves every operation on by one step. Returns true if anything moved.
  bool step_operations(CpuMeter& meter);
  bool step(Operation& operation);

 private:
  const Peers& peers_;
  Sockets& sockets_;
  Inbox& inbox_;
  ActiveOperations& operations_;
  Failures& failures_;
  Deadlines& deadlines_;
  Guests& guests_;
  unsigned passes_ = 0;
};

}  // namespace paceline
