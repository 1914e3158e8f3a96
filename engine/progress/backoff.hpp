// How to wait when there is nothing to do: spin while a wake-up would cost more, then let others run, then sleep.
#pragma once

#include <algorithm>
#include <chrono>

namespace paceline {

struct WaitBudget {
  std::chrono::nanoseconds spin{};                      // only where this rank has a core of its own
  std::chrono::nanoseconds yield{};                     // offering the core at each look, with nobody taking it
  std::chrono::steady_clock::time_point yield_again{};  // not before
  unsigned yields = 0;                                  // since one was answered by a long absence
  bool doubted = false;                                 // that yields help: the last absence came after few of them
  std::chrono::nanoseconds longest = std::chrono::microseconds(50);  // that `yield` may become
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

  // After a sleep: where all of the wait was short, to yield would have been better than a wake-up.
  void slept() {
    if (std::chrono::steady_clock::now() - begin_ >= budget_.longest) {
      budget_.yield = std::max(budget_.yield / 2, kShortestYield);
      return;
    }
    budget_.yield = std::min(budget_.yield * 2, budget_.longest);
    looks_ = 0;
    phase_ = Next::spin;
  }

  // `crowded` is asked now and then: where those it waits for need this very core, it does not spin.
  template <typename Crowded>
  Next next(Crowded&& crowded) {
    using clock = std::chrono::steady_clock;
    constexpr unsigned kLooksPerClock = 16;
    if (looks_++ == 0) {
      begin_ = clock::now();
      in_vain_ = {};
    }
    if (looks_ % kLooksPerClock == 0 || phase_ != Next::spin || looks_ == 1) {
      const auto now = clock::now();
      const auto waited = now - begin_;
      look_ = now;
      const auto spin = crowded() ? std::chrono::nanoseconds(0) : budget_.spin;
      const bool may_yield =
          now >= budget_.yield_again && in_vain_ < budget_.yield && waited < budget_.spin + kLongestWait;
      phase_ = waited < spin ? Next::spin : may_yield ? Next::yield : Next::park;
    }
    return phase_;
  }

  // After a yield that came back at `now`: what it took counts also where it was the last, because peers have come
  // meanwhile.
  void yielded(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
    if (phase_ != Next::yield) return;
    const auto away = now - look_;
    if (away < kSwitch) in_vain_ += away;
    if (away <= kStranger) {
      if (++budget_.yields == kSeldom) budget_.doubted = false;
      return;
    }
    if (budget_.yields < kSeldom) {
      budget_.yield_again = now + (budget_.doubted ? kRetry : kFirstRetry);
      budget_.doubted = true;
    }
    budget_.yields = 0;
  }

 private:
  // A yield that returns sooner was taken by nobody. Where the kernel groups tasks by session, a rank in a session of
  // its own always yields in vain: that is kept up only as long as it is seen to help.
  static constexpr std::chrono::nanoseconds kSwitch = std::chrono::microseconds(1);
  static constexpr std::chrono::nanoseconds kLongestWait = std::chrono::microseconds(200);
  static constexpr std::chrono::nanoseconds kShortestYield = std::chrono::microseconds(2);
  // Who yields to a process that computes is gone for its whole time slice, while a sleeper that is woken comes before
  // it: after an absence as long as this, yielding is left alone for a while, and after a second one for long: the
  // first may have been a peer that still starts. Not so where it comes after many yields that others gave back at
  // once: then it was not the yield that brought it about, but who took the CPU from them all.
  static constexpr std::chrono::nanoseconds kStranger = std::chrono::milliseconds(1);
  static constexpr unsigned kSeldom = 256;
  static constexpr std::chrono::nanoseconds kFirstRetry = std::chrono::milliseconds(10);
  static constexpr std::chrono::nanoseconds kRetry = std::chrono::milliseconds(500);

  WaitBudget& budget_;
  unsigned looks_ = 0;
  Next phase_ = Next::spin;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point look_;
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
