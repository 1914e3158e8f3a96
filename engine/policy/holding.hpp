// Requests that are ready everywhere are held back for a short time as long as no caller waits for them: every batch
// wakes up a thread of each rank, which takes the core from threads that compute, and many small batches cost more than
// they gain.
//
// Holding ends when a rank of the machine waits for a request, when there is enough for a batch that is worth it, or
// when some time is over, which any rank notices that submits something. Only if no rank does, the one that made the
// first request of the window ready wakes up for it, after as much time again.
//
// When a caller begins to wait, nothing hides the time of the requests that are still held back. So they stay a small
// part of all that has gone out since a caller waited last; the more that is, the larger batches are.
#pragma once

#include <optional>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/request.hpp"

namespace paceline {

class Holding {
 public:
  // Requests are held back for at most so many `seconds`; with 0 nothing is held back.
  Holding(double seconds, BoardMemory& memory) : seconds_(seconds), memory_(memory) {}

  // The latest time that it was told.
  void tell(double now) { now_ = now; }
  // A Sleep is over.
  void woke() { sleeps_ = false; }
  // The window has its first request. `looks` tells whether this rank has made it ready.
  void begin(bool looks);
  // The window was cut, and these requests were `issued`.
  void end() { looks_ = false; }
  void issued(const Request& request) {
    gone_out_ += agreed_bytes(request);
    if (!awaited_.empty()) stop_waiting(request);
  }
  // A caller of this rank waits.
  void awaited(const Request& request);

  // No caller of this rank waits any more.
  void forget();

  // Returns whether a window of so many bytes is held back.
  bool holds(std::uint64_t bytes) const;
  // Returns the end of each Sleep that is needed, once.
  std::optional<double> sleep();

 private:
  void stop_waiting(const Request& request);
  std::uint64_t worth_it() const;

  const double seconds_;
  BoardMemory& memory_;
  double now_ = 0;
  double due_ = 0;
  bool looks_ = false;
  bool sleeps_ = false;
  std::uint64_t gone_out_ = 0;           // the bytes since a caller of this rank began to wait
  std::vector<const Request*> awaited_;  // requests that a caller waits for, and that are not issued
};

}  // namespace paceline
