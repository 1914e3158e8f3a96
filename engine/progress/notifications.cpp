#include "progress/notifications.hpp"

#include <new>

namespace paceline {

std::vector<std::uint64_t> Notifications::next(Lock& lock) {
  for (;;) {
    came_.wait(lock, [this] { return ended_ || !finished_.empty() || !callbacks_.empty(); });
    if (callbacks_.empty()) return std::exchange(finished_, {});
    auto callbacks = std::exchange(callbacks_, {});
    lock.unlock();
    for (const auto& callback : callbacks) callback();
    callbacks.clear();  // what they hold is let go without the lock, too
    lock.lock();
  }
}

// A condition variable that is destroyed waits for those that sleep on it.
void Notifications::forget_after_fork() { new (&came_) std::condition_variable(); }

}  // namespace paceline
