// Times in the units in which they are handed on.
#pragma once

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

inline std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return to > from ? static_cast<std::uint64_t>(ns_of(to) - ns_of(from)) : 0;
}

}  // namespace paceline
