// What a rank says when another one asks what it waits for: the operations that it has under way, and for whom each of
// them waits.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "execute/operation.hpp"

namespace paceline {

// An operation as all of its ranks know it.
struct CallId {
  enum class Kind : std::uint8_t { together, send, recv };

  std::uint64_t channel = 0;
  std::uint64_t number = 0;  // see Operation::number
  Kind kind = Kind::together;

  auto operator<=>(const CallId&) const = default;
};

CallId call_of(const Operation& operation);

struct OwnWait {
  CallId call;
  bool called = false;  // a thread waits for it; else the program goes on meanwhile
  Clock::duration age{};
  std::vector<std::string> missing;  // the ranks that it waits for, as peers call them
};

struct WaitReport {
  static constexpr std::size_t kLongest = 2048;  // bytes

  std::vector<OwnWait> waits;
  Clock::time_point at;  // when it was heard

  // Write a report as a frame carries it, without what does not fit, and read it; none if it is garbled.
  std::string encoded() const;
  static std::optional<WaitReport> decoded(std::span<const std::byte> payload, Clock::time_point at);
};

}  // namespace paceline
