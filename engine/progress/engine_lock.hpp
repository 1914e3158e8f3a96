// The one lock of an engine.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

namespace paceline {

class EngineLock {
 public:
  std::unique_lock<std::mutex> take() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      ++contenders_;
      lock.lock();
      --contenders_;
    }
    return lock;
  }
  // Unlocks for a caller of `take` that has released what it got.
  void give_back() { mutex_.unlock(); }
  // Whether another thread waits for the lock.
  bool is_contended() const { return contenders_.load(std::memory_order_relaxed) > 0; }
  // Gives the lock, and the CPU, to another thread for a moment.
  static void offer(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> contenders_{0};
};

}  // namespace paceline
