// Converts times to the units in which they are handed on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "execute/operation.hpp"

namespace paceline {

inline std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

inline double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// A time that is longer than the clock counts is cut to 100 years.
inline Clock::duration on_clock(std::chrono::duration<double> time) {
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365 * 100);
  return std::chrono::duration_cast<Clock::duration>(std::min(time, kLongest));
}

inline std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return to > from ? static_cast<std::uint64_t>(ns_of(to) - ns_of(from)) : 0;
}

}  // namespace paceline
