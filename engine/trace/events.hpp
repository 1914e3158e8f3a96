// The always-on event ring: the last few thousand operations of this rank.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "types/collective.hpp"

namespace paceline {

enum class EventState : std::uint8_t { running, done, failed };

struct Event {
  std::uint64_t id = 0;
  std::uint64_t channel = 0;
  std::uint32_t sequence = 0;
  Fingerprint what;
  EventState state = EventState::running;
  std::uint64_t bytes = 0;
  const char* algorithm = "";
  const char* link = "";
  std::int64_t enqueued_ns = 0;  // CLOCK_REALTIME
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

class EventRing {
 public:
  static constexpr std::size_t kCapacity = 4096;

  EventRing() : events_(kCapacity) {}

  // The slot of the operation with this id. Ids count up from 1.
  Event& slot(std::uint64_t id) { return events_[id % kCapacity]; }
  // Returns the events with ids above `after`, up to `last_id`.
  std::vector<Event> snapshot(std::uint64_t after, std::uint64_t last_id) const;
  // Returns the same name in memory that lives as long as the ring.
  const char* keep(std::string_view name) { return names_.emplace(name).first->c_str(); }

 private:
  std::vector<Event> events_;
  std::set<std::string> names_;
};

std::int64_t realtime_ns();

}  // namespace paceline
