// How callers and the server wait. A caller that waits moves all operations on; the server does so while no caller
// waits, and steps aside while one does. Each spins, then yields, then sleeps, as its budget says.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "progress/backoff.hpp"
#include "progress/engine_lock.hpp"
#include "progress/parking.hpp"
#include "progress/placement.hpp"
#include "progress/waiting_callers.hpp"

namespace paceline {

class Waiting {
 public:
  // For the other arguments see Engine.
  Waiting(EngineLock& contention, Sleepers& sleepers, Parking& parking, Loop& loop, ActiveOperations& operations,
          Guests& guests, Failures& failures, std::chrono::nanoseconds spin, const std::string& description,
          std::function<bool()> interrupted, int preferred_cpu);

  // Finishes an operation as most calls on one machine go: nothing else is under way, and the other ranks are about to
  // arrive. Returns false if it takes longer, or goes wrong. The operation needs no network.
  bool finish_quickly(Operation& operation);
  // The calling thread waits until the operation is over.
  void wait(Sleepers::Lock& lock, Operation& operation);
  // The calling thread is the server until the engine is `closed`.
  void serve(Sleepers::Lock& lock, const bool& closed);

  // Whether a thread sleeps, or no thread moves operations on.
  bool is_idle() const { return callers_.count() == 0 || sleepers_.listening(); }
  WaitingCallers& callers() { return callers_; }

 private:
  class Foreground;

  // Waits for a moment. Returns true if it slept.
  bool pause(Sleepers::Lock& lock, Backoff& backoff, CpuMeter& meter);
  void check_interrupt(Sleepers::Lock& lock, Foreground& foreground, Operation& operation);
  bool moves_data() const;

  EngineLock& contention_;
  Sleepers& sleepers_;
  Parking& parking_;
  Loop& loop_;
  ActiveOperations& operations_;
  Guests& guests_;
  Failures& failures_;
  const std::string& description_;
  const std::function<bool()> interrupted_;
  WaitBudget caller_budget_;  // for small operations, which a wake-up delays most
  WaitBudget bulk_budget_;    // for larger ones
  WaitBudget server_budget_;
  Placement placement_;
  WaitingCallers callers_;
};

}  // namespace paceline
