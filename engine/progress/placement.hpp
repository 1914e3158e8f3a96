// Leaving a CPU to the peers that share it, where another one has room.
#pragma once

#include <sched.h>

#include <chrono>
#include <utility>

#include "execute/operation.hpp"

namespace paceline {

class Placement {
 public:
  // Ranks that give way to each other all the time are not moved by the scheduler for a tenth of a second, sometimes
  // for seconds. The last of those that crowd a CPU goes to any other that it may use; its affinity is as before
  // afterwards. Asked at each look of who waits in `operation`, it looks about now and then, and moves at most once in
  // a while, and only where it has seen that twice.
  void note(const Operation& operation) {
    if (++looks_ % kLooks != 0) return;
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    const bool before = std::exchange(crowded_, operation.crowded(allowed));
    if (!before || !crowded_) return;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kPause;
    crowded_ = false;
    move(allowed);
  }

 private:
  static constexpr unsigned kLooks = 16;
  static constexpr std::chrono::milliseconds kPause{5};

  static void move(const cpu_set_t& allowed) {
    cpu_set_t others = allowed;
    const int here = ::sched_getcpu();
    if (here < 0) return;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (CPU_COUNT(&others) == 0) return;
    if (::sched_setaffinity(0, sizeof others, &others) == 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
  }

  unsigned looks_ = 0;
  bool crowded_ = false;
  Clock::time_point next_;
};

}  // namespace paceline
