// Tells what this process has made from what it was forked with. A forked child shares memory with the peers of its
// parent, but is no rank: whatever it did there would be done in its parent's name.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace paceline {

class Origin {
 public:
  Origin() : forks_(forks.load(std::memory_order_relaxed)), pid_(::getpid()) {}

  bool inherited() const { return forks_ != forks.load(std::memory_order_relaxed); }
  // The process that made this.
  pid_t pid() const { return pid_; }

 private:
  static std::atomic<unsigned> forks;  // that lie between the first process that loaded this and the present one

  const unsigned forks_;
  const pid_t pid_;
};

}  // namespace paceline
