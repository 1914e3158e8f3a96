#include "link/peer_clock.hpp"

#include <algorithm>

namespace paceline {

std::int64_t PeerClock::tell(Time now) {
  next_ = now + pause_;
  pause_ = std::min(2 * pause_, calibration::kLongestClockPause);
  return std::min(shortest_, shortest_before_);
}

void PeerClock::hear(std::int64_t sent, std::int64_t received, std::int64_t told, Time now) {
  // What a peer says may be anything, so that this may overflow.
  const auto way = static_cast<std::int64_t>(static_cast<std::uint64_t>(received) - static_cast<std::uint64_t>(sent));
  if (now - span_began_ >= calibration::kClockSpan) {
    shortest_before_ = now - span_began_ < 2 * calibration::kClockSpan ? shortest_ : kNothing;
    shortest_ = way;
    span_began_ = now;
  }
  shortest_ = std::min(shortest_, way);
  told_ = told;
}

std::optional<ClockBounds> PeerClock::bounds() const {
  const std::int64_t here = std::min(shortest_, shortest_before_);
  if (here == kNothing || told_ == kNothing || here == -kNothing - 1) return std::nullopt;
  return ClockBounds{std::min(-here, told_), std::max(-here, told_)};
}

}  // namespace paceline
