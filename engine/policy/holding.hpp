// What is ready everywhere while nobody waits for it is held back a little: every batch wakes up a thread of each rank,
// which takes the core from those that compute, and many small ones cost more than they gain.
//
// It ends when a rank of the machine waits for a request, when there is enough for a batch that is worth it, or when
// some time is over: any rank that hands in something notices that. Only if nobody does, the one that made the first
// request of the window ready wakes up for it, as much later.
//
// What is still held back when somebody begins to wait has its time all to itself. So it stays a small part of all that
// has gone out since somebody waited last, and the more that is, the larger batches are.
#pragma once

#include <optional>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/request.hpp"

namespace paceline {

class Holding {
 public:
  // `seconds`: how long at most; with 0 nothing is held back.
  Holding(double seconds, BoardMemory& memory) : seconds_(seconds), memory_(memory) {}

  // What was last heard of the time.
  void tell(double now) { now_ = now; }
  // A Sleep is over.
  void woke() { sleeps_ = false; }
  // The window has its first request. `looks`: it was this rank that made it ready.
  void begin(bool looks);
  // The window was cut; what was `issued` was in it.
  void end() { looks_ = false; }
  void issued(const Request& request) {
    gone_out_ += agreed_bytes(request);
    if (!awaited_.empty()) stop_waiting(request);
  }
  // A caller of this rank waits.
  void awaited(const Request& request);

  // Nobody waits any more.
  void forget();

  // Whether a window of so many bytes is held back.
  bool holds(std::uint64_t bytes) const;
  // Once for each Sleep that is needed: until when.
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
  std::uint64_t gone_out_ = 0;           // bytes, since a caller of this rank began to wait
  std::vector<const Request*> awaited_;  // and not issued
};

}  // namespace paceline
