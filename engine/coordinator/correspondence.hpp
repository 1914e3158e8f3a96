// What the coordinators of a group's ranks write to each other, through the links of the control group.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "execute/group.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Correspondence {
 public:
  // What a message is: one of the policy's own, or see Departures (closing) and Inquiries (the others).
  enum Kind : std::int32_t { policy, more_follows, closing, ask, have, await };
  static constexpr std::size_t kMost =
      960;  // bytes of a message that is not the policy's: a record of any link has room
  using Heard = std::function<void(int from, Kind kind, std::span<const std::byte> message)>;

  Correspondence(LoopHost& loop, Group& control)
      : loop_(loop), control_(control), partial_(static_cast<std::size_t>(control.size())) {}

  // Nothing is sent to a rank that cannot be reached any more.
  void tell(int to, Kind kind, std::span<const std::byte> message);
  // Hands on what has come, in order. Returns whether anything has.
  bool receive(const Heard& heard);

 private:
  LoopHost& loop_;
  Group& control_;
  std::vector<std::vector<std::byte>> partial_;  // by rank: the parts of a policy's message that have come so far
};

}  // namespace paceline
