// The one lock of an engine.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "calibration/waiting.hpp"

namespace paceline {

class EngineLock {
 public:
  using Clock = std::chrono::steady_clock;

  std::unique_lock<std::mutex> take() {
    std::unique_lock lock(mutex_, std::defer_lock);
    retake(lock);
    return lock;
  }
  // For a caller of `take` that has unlocked what it got. Whoever holds the lock meanwhile sees it wait.
  void retake(std::unique_lock<std::mutex>& lock) {
    if (lock.try_lock()) return;
    ++contenders_;
    lock.lock();
    --contenders_;
    turns_.fetch_add(1, std::memory_order_relaxed);
    turns_.notify_all();
  }
  // Unlocks for a caller of `take` that has released what it got.
  void give_back() { mutex_.unlock(); }
  // Whether another thread waits for the lock.
  bool is_contended() const { return contenders_.load(std::memory_order_relaxed) > 0; }
  // Gives the lock, and the CPU, to another thread for a moment. Returns when the CPU came back.
  //
  // Who waits for the lock sleeps, and is awake only after a thread that spins has taken the lock again. If that has
  // lasted, the lock is handed over: else a thread that spins keeps the others out for as long as CPUs are scarce.
  Clock::time_point offer(std::unique_lock<std::mutex>& lock) {
    const bool contended = is_contended();
    const std::uint32_t turn = turns_.load(std::memory_order_relaxed);
    const bool hands_over = contended && has_waited(turn);
    lock.unlock();
    ::sched_yield();
    const auto back = Clock::now();
    if (hands_over) turns_.wait(turn, std::memory_order_relaxed);
    lock.lock();
    return back;
  }

 private:
  // Whether the offers since the last turn began long enough ago for a sleeper to have woken up.
  bool has_waited(std::uint32_t turn) {
    const auto now = Clock::now();
    if (offered_ != turn) {
      offered_ = turn;
      offered_since_ = now;
    }
    return now - offered_since_ > calibration::kYield;
  }

  std::mutex mutex_;
  std::atomic<int> contenders_{0};
  std::atomic<std::uint32_t> turns_{0};        // of threads that had to wait for the lock
  std::uint32_t offered_ = ~std::uint32_t{0};  // the turns at the first offer that nobody has taken yet
  Clock::time_point offered_since_;
};

}  // namespace paceline
