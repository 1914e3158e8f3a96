// Where a rank runs whose peers share its CPUs: the kernel lets those who give way to each other all the time crowd one
// of them for a tenth of a second, sometimes for seconds.
#pragma once

#include <sched.h>

#include <chrono>
#include <utility>

#include "calibration/constants.hpp"
#include "execute/operation.hpp"

namespace paceline {

class Placement {
 public:
  // `home`: the CPU that this rank returns to, as all ranks of this kernel have been told one where they outnumber the
  // CPUs; negative: any will do where the others leave room.
  explicit Placement(int home) : home_(home < CPU_SETSIZE ? home : -1) {}

  // Asked at each look of who waits in `operation`, it looks about now and then. Away from home, or as the last of
  // those that crowd a CPU, the caller moves, at most once in a while, and only where it has seen that twice; its
  // affinity is as before afterwards.
  void note(const Operation& operation) {
    if (++looks_ % calibration::kLooksPerPlacement != 0) return;
    const int here = ::sched_getcpu();
    cpu_set_t allowed;
    if (here < 0 || here == home_ || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
      misplaced_ = false;
      return;
    }
    const bool before = std::exchange(misplaced_, home_ >= 0 || operation.crowded(allowed));
    if (!before || !misplaced_) return;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + calibration::kMovePause;
    misplaced_ = false;
    move(here, allowed);
  }

 private:
  void move(int here, const cpu_set_t& allowed) const {
    cpu_set_t to = allowed;
    if (home_ >= 0) {
      CPU_ZERO(&to);
      CPU_SET(static_cast<std::size_t>(home_), &to);
      CPU_AND(&to, &to, &allowed);
    } else {
      CPU_CLR(static_cast<std::size_t>(here), &to);
    }
    if (CPU_COUNT(&to) == 0) return;
    if (::sched_setaffinity(0, sizeof to, &to) == 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
  }

  const int home_;
  unsigned looks_ = 0;
  bool misplaced_ = false;
  Clock::time_point next_;
};

}  // namespace paceline
