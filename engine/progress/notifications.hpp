// What users asked to be told of, in the order in which it happened. A thread of their own tells it, the notifier: what
// it calls may take long, or wait for the GIL, and progress may not depend on that.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace paceline {

class Notifications {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // The notifier reports the end of this operation.
  void report(std::uint64_t id) {
    finished_.push_back(id);
    came_.notify_all();
  }
  // The notifier calls this, without the lock.
  void call(std::function<void()> callback) {
    callbacks_.push_back(std::move(callback));
    came_.notify_all();
  }
  // No id is reported any more, but what is to be called is.
  void end() {
    ended_ = true;
    finished_.clear();
    came_.notify_all();
  }

  // The calling thread is the notifier until there are ids to report, which this returns; none after `end`.
  std::vector<std::uint64_t> next(Lock& lock);

  // In a child the notifier does not exist, and nothing may wait for it.
  void forget_after_fork();

 private:
  std::condition_variable came_;
  std::vector<std::uint64_t> finished_;
  std::vector<std::function<void()>> callbacks_;
  bool ended_ = false;
};

}  // namespace paceline
