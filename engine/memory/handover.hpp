// Copies into memory that other cores have read before: what a rank hands over to its peers.
//
// To write to a cache line a core must first get it from where it is. Where the cores share a cache that takes some 2
// ns a line; where they do not, as on two sockets or in two parts of a large processor, some 24, and nearly all of the
// time of a hand-over. Stores around the caches need not get it; but then the reader finds the data in memory, which
// takes it twice as long as from a shared cache. Which is better can change while a job runs, when threads or a virtual
// machine's CPUs are moved. So now and then the first lines are copied plainly, and that is timed: the writer sees all
// of the difference, and need not ask anybody.
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline {

class Handover {
 public:
  // Less is always copied plainly, most often to lines that are still in the cores' own caches.
  static constexpr std::size_t kLeast = std::size_t{8} << 10;
  // What of it is copied plainly for the time that takes, and the time from which on cores are far apart.
  static constexpr std::size_t kProbed = std::size_t{2} << 10;
  static constexpr std::chrono::nanoseconds kFar{400};

  void copy(std::byte* to, const std::byte* from, std::size_t bytes);

  // Probes in a row that count. One that takes long may have been interrupted. One that does not may have met lines
  // that nobody had read, far apart or not.
  static constexpr int kFarInRow = 2;
  static constexpr int kNearInRow = 16;

  // A probe took so long.
  void took(std::chrono::nanoseconds time);
  bool streams() const { return streams_; }

 private:
  unsigned copies_ = 0;
  bool streams_ = false;
  int against_ = 0;  // probes in a row that say otherwise
};

}  // namespace paceline
