// Leaving a CPU to the peer that shares it, where this process may use others.
#pragma once

#include <sched.h>

#include <chrono>

namespace paceline {

class Placement {
 public:
  // Of two ranks on one CPU the scheduler may take seconds to move one, when both give way to each other all the time.
  // Moves the calling thread to any other CPU that it may use; its affinity is as before afterwards. At most once in a
  // while, and only once the CPU has been shared for some looks in a row.
  void note(bool crowded) {
    if (!crowded) {
      seen_ = 0;
      return;
    }
    if (++seen_ < kLooks) return;
    seen_ = 0;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kPause;
    move();
  }

 private:
  static constexpr int kLooks = 8;
  static constexpr std::chrono::milliseconds kPause{5};

  static void move() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    cpu_set_t others = allowed;
    const int here = ::sched_getcpu();
    if (here < 0) return;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (::sched_setaffinity(0, sizeof others, &others) == 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
  }

  int seen_ = 0;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace paceline
