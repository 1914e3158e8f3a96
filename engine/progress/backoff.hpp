// How to wait when there is nothing to do: spin while a wake-up would cost more, then let others run, then sleep.
#pragma once

#include <algorithm>
#include <chrono>

namespace paceline {

struct WaitBudget {
  std::chrono::nanoseconds spin{};   // only where this rank has a core of its own
  std::chrono::nanoseconds yield{};  // giving the core away at each look
};

class Backoff {
 public:
  enum class Next { spin, yield, park };

  explicit Backoff(WaitBudget& budget) : budget_(budget) {}

  void reset() {
    if (phase_ == Next::yield) budget_.yield = std::min(budget_.yield * 2, kLongestYield);
    looks_ = 0;
    phase_ = Next::spin;
  }

  // `crowded` is asked now and then: where those it waits for need this very core, it does not spin.
  template <typename Crowded>
  Next next(Crowded&& crowded) {
    using clock = std::chrono::steady_clock;
    constexpr unsigned kLooksPerClock = 16;
    if (looks_++ == 0) begin_ = clock::now();
    if (looks_ % kLooksPerClock == 0 || phase_ != Next::spin || looks_ == 1) {
      const auto waited = clock::now() - begin_;
      const Next last = phase_;
      const auto spin = crowded() ? std::chrono::nanoseconds(0) : budget_.spin;
      phase_ = waited < spin ? Next::spin : waited < budget_.spin + budget_.yield ? Next::yield : Next::park;
      if (phase_ == Next::park && last == Next::yield) budget_.yield = std::max(budget_.yield / 2, kShortestYield);
    }
    return phase_;
  }

 private:
  // Where the kernel groups tasks by session, a rank in a session of its own yields to nobody: yielding is kept up only
  // as long as it is seen to help.
  static constexpr std::chrono::nanoseconds kLongestYield = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds kShortestYield = std::chrono::microseconds(2);

  WaitBudget& budget_;
  unsigned looks_ = 0;
  Next phase_ = Next::spin;
  std::chrono::steady_clock::time_point begin_;
};

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace paceline
