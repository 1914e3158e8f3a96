// What this rank knows of where others are: the last operation that each was heard of in, and the line of its program.
// It also tells others where this rank is.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "execute/group.hpp"
#include "progress/peers.hpp"

namespace paceline {

// A rank that an operation waits for.
struct Missing {
  std::string who;
  std::string last;  // the operation that it was last heard of in, or empty
  std::string
      line;  // the line of its program that it has told us of since the wait began, in printable ASCII, or empty
  std::chrono::duration<double> ago{};  // how long ago it told us
};

class Whereabouts {
 public:
  explicit Whereabouts(Peers& peers) : peers_(peers) {}

  std::string last_heard(const Group& group, int rank) const;
  // What is known of the rank of this description, which a group misses since then.
  Missing missed(const Group& group, const std::string& who, Clock::time_point since) const;

  // Tells the other ranks that this one waits in `operation`: if another is elsewhere in the same collective, both
  // sides learn of it.
  void report_wait(const Operation& operation);
  // Tells peers on other machines that have sent something since this operation, the last of this rank, at which line
  // its program is, cut to 255 bytes.
  void tell_line(std::string_view line, std::uint64_t last_operation);
  void hear_line(Peer& peer, std::span<const std::byte> line);

 private:
  Peers& peers_;
};

}  // namespace paceline
