#include "trace/events.hpp"

#include <algorithm>
#include <ctime>

namespace paceline {

std::vector<Event> EventRing::snapshot(std::uint64_t after, std::uint64_t last_id) const {
  std::vector<Event> events;
  const std::uint64_t first = std::max(after, last_id < kCapacity ? 0 : last_id - kCapacity) + 1;
  for (std::uint64_t id = first; id <= last_id; ++id) {
    const Event& event = events_[id % kCapacity];
    if (event.id == id) events.push_back(event);
  }
  return events;
}

std::int64_t realtime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace paceline
