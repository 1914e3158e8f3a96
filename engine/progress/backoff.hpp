// How to wait when there is nothing to do: spin while a wake-up would cost more, then let other threads run, then
// sleep.
#pragma once

#include <algorithm>
#include <chrono>

#include "calibration/waiting.hpp"

namespace paceline {

struct WaitBudget {
  std::chrono::nanoseconds spin{};                         // time to spin, if this rank has a core of its own
  std::chrono::nanoseconds yield{};                        // time to offer the core at each look without any taker
  std::chrono::steady_clock::time_point yield_again{};     // no yields before this time
  unsigned yields = 0;                                     // since one of them led to a long absence
  bool doubted = false;                                    // the last long absence came after few yields
  std::chrono::nanoseconds longest = calibration::kYield;  // the most that `yield` may become
};

class Backoff {
 public:
  enum class Next { spin, yield, park };

  explicit Backoff(WaitBudget& budget) : budget_(budget) {}

  void reset() {
    if (phase_ == Next::yield) budget_.yield = std::min(budget_.yield * 2, budget_.longest);
    looks_ = 0;
    phase_ = Next::spin;
  }

  // The caller has slept. If the whole wait was short, to yield would have been better than a wake-up.
  void slept() {
    if (std::chrono::steady_clock::now() - begin_ >= budget_.longest) {
      budget_.yield = std::max(budget_.yield / 2, calibration::kShortestYield);
      return;
    }
    budget_.yield = std::min(budget_.yield * 2, budget_.longest);
    looks_ = 0;
    phase_ = Next::spin;
  }

  // It calls `crowded` now and then: if the ranks that it waits for need this very core, it does not spin.
  template <typename Crowded>
  Next next(Crowded&& crowded) {
    using clock = std::chrono::steady_clock;
    if (looks_++ == 0) {
      begin_ = clock::now();
      in_vain_ = {};
    }
    if (looks_ % calibration::kLooksPerClock == 0 || phase_ != Next::spin || looks_ == 1) {
      const auto now = clock::now();
      const auto waited = now - begin_;
      look_ = now;
      const auto spin = crowded() ? std::chrono::nanoseconds(0) : budget_.spin;
      const bool may_yield =
          now >= budget_.yield_again && in_vain_ < budget_.yield && waited < budget_.spin + calibration::kLongestWait;
      phase_ = waited < spin ? Next::spin : may_yield ? Next::yield : Next::park;
    }
    return phase_;
  }

  // Takes note of a yield that came back at `now`, even if it was the last one because peers have come meanwhile.
  //
  // A rank that yields to a process that computes is gone for the whole time slice of that process, while a sleeper
  // that is woken comes before it. So after a long absence yielding is left alone for a while, and after a second one
  // for long: the first may have been a peer that still starts. An absence after many yields that were given back at
  // once does not count: the yield did not bring it about, but a process that took the core from all ranks.
  void yielded(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
    if (phase_ != Next::yield) return;
    const auto away = now - look_;
    if (away < calibration::kYieldInVain) in_vain_ += away;
    if (away <= calibration::kLongAbsence) {
      if (++budget_.yields == calibration::kYieldsThatHelp) budget_.doubted = false;
      return;
    }
    if (budget_.yields < calibration::kYieldsThatHelp) {
      budget_.yield_again = now + (budget_.doubted ? calibration::kYieldPause : calibration::kFirstYieldPause);
      budget_.doubted = true;
    }
    budget_.yields = 0;
  }

 private:
  WaitBudget& budget_;
  unsigned looks_ = 0;
  Next phase_ = Next::spin;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point look_;
  // The time of yields that no thread took. If the kernel groups tasks by session, a rank in a session of its own
  // always yields in vain, and so it goes on only as long as that is seen to help.
  std::chrono::nanoseconds in_vain_{};
};

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace paceline
