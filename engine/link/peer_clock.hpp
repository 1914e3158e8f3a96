// How far a peer's clock is ahead of this one, from messages that say when they were sent.
//
// No message comes before it was sent. So each one bounds the difference of the two clocks from one side, and one each
// way bounds it from both (A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating Global Time in Distributed Systems",
// ICDCS 1987). Whatever keeps a message waiting only widens its bound, so the tightest ones count, as in NTP (RFC
// 5905). Those of more than some seconds ago are forgotten once others come, because clocks drift and are set.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "calibration/network.hpp"

namespace paceline {

// The nanoseconds by which a peer's clock is ahead of this one, at least and at most; both are CLOCK_REALTIME.
struct ClockBounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

class PeerClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();

  // Whether the peer is to be told the time again.
  bool due(Time now) const { return now >= next_; }
  // The peer is told the time now. Returns what else it is to be told: the shortest way of its messages, as both clocks
  // have it; kNothing if none has come.
  std::int64_t tell(Time now);
  // A message has come at `received` on this clock that the peer sent at `sent` on its own. told: what the peer's
  // `tell` returned.
  void hear(std::int64_t sent, std::int64_t received, std::int64_t told, Time now);
  // Nothing before messages have come each way. They contradict each other if a clock drifts, or is set: the difference
  // then lies between what both say.
  std::optional<ClockBounds> bounds() const;

 private:
  Time next_{};
  std::chrono::milliseconds pause_ = calibration::kFirstClockPause;
  // The shortest ways in this span and in the one before it.
  Time span_began_{};
  std::int64_t shortest_ = kNothing;
  std::int64_t shortest_before_ = kNothing;
  std::int64_t told_ = kNothing;
};

}  // namespace paceline
