// The large collectives of a group, or the large batches of a coordinator, which are numbered from 0, alike on all
// ranks; and the time that each took on this rank. All ranks stop before the same one of them, to look at these times.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "types/collective.hpp"

namespace paceline {

class LargeCalls {
 public:
  struct Call {
    Collective collective = Collective::all_reduce;
    std::uint64_t bytes = 0;  // 0 if it was forgotten
    double seconds = -1;      // negative if it is not over, or was forgotten
  };

  struct Snapshot {
    std::uint64_t count = 0;  // of all calls so far
    std::uint64_t most_under_way = 0;
    std::vector<Call> calls;  // from a certain one on
  };

  // The first stop is before call `stop`.
  explicit LargeCalls(std::uint64_t stop) : kept_(kKept), stop_(stop) {}

  // Whether the time of this collective is that of the links. A broadcast is not counted: its root is done when the
  // last bytes are in a socket, and ranks beside it are done sooner than the link. Nor is a collective whose size
  // differs between ranks, or one that is encoded, whose time the rates of the links do not tell.
  static bool counts(const Fingerprint& what, std::uint64_t bytes);

  // Times are nanoseconds of one clock. Returns the call's number.
  std::uint64_t begin(Collective collective, std::uint64_t bytes, std::int64_t now_ns);
  void end(std::uint64_t number, std::int64_t now_ns);

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // All calls from `first` on. What overlaps with the call before counts for that one alone.
  std::vector<Call> since(std::uint64_t first) const;
  // The most calls that were under way when another one began.
  std::uint64_t most_under_way() const { return most_under_way_; }

  // Whether the next call has to wait until somebody has looked, and has called `stop_before`. Any thread may ask.
  bool stops() const { return count() >= stop_.load(std::memory_order_relaxed); }
  void stop_before(std::uint64_t number) { stop_.store(number, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kKept = 256;  // calls

  struct Kept {
    Collective collective = Collective::all_reduce;
    std::uint64_t bytes = 0;
    std::int64_t begun_ns = 0;
    std::int64_t ended_ns = 0;  // 0: not over
  };
  const Kept& kept(std::uint64_t number) const { return kept_[number % kKept]; }

  std::vector<Kept> kept_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> stop_;
  std::uint64_t under_way_ = 0;
  std::uint64_t most_under_way_ = 0;
};

}  // namespace paceline
