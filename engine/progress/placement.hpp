// Moves a rank that shares CPUs with its peers: the kernel lets threads that give way to each other all the time crowd
// one CPU for a tenth of a second, sometimes for seconds.
#pragma once

#include <sched.h>

#include <chrono>
#include <utility>

#include "calibration/waiting.hpp"
#include "execute/operation.hpp"

namespace paceline {

class Placement {
 public:
  // `preferred_cpu` is the preferred CPU of this rank: if the ranks under this kernel outnumber the CPUs, each has been
  // assigned one. If it is negative, any CPU will do that the other ranks leave free.
  explicit Placement(int preferred_cpu) : preferred_cpu_(preferred_cpu < CPU_SETSIZE ? preferred_cpu : -1) {}

  // A caller that waits in `operation` calls this at each look; it looks about now and then. If the caller is away from
  // its preferred CPU, or is the last of the ranks that crowd a CPU, and has seen that twice, it moves, at most once in
  // a while. Its affinity is as before afterwards.
  void note(const Operation& operation) {
    if (++looks_ % calibration::kLooksPerPlacement != 0) return;
    const int here = ::sched_getcpu();
    cpu_set_t allowed;
    if (here < 0 || here == preferred_cpu_ || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
      misplaced_ = false;
      return;
    }
    const bool before = std::exchange(misplaced_, preferred_cpu_ >= 0 || operation.crowded(allowed));
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
    if (preferred_cpu_ >= 0) {
      CPU_ZERO(&to);
      CPU_SET(static_cast<std::size_t>(preferred_cpu_), &to);
      CPU_AND(&to, &to, &allowed);
    } else {
      CPU_CLR(static_cast<std::size_t>(here), &to);
    }
    if (CPU_COUNT(&to) == 0) return;
    if (::sched_setaffinity(0, sizeof to, &to) == 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
  }

  const int preferred_cpu_;
  unsigned looks_ = 0;
  bool misplaced_ = false;
  Clock::time_point next_;
};

}  // namespace paceline
