// Has the kernel spread a stream's packets over time once a short queue on the way has dropped some of them.
//
// TCP sends what its window allows in one go. A long queue takes that in; of a short one, or at a policer, the last
// packets of several streams that send at once are lost, and each loss holds up a whole collective. Packets that are
// spread over the round trip fit. But where queues are long and streams lose for other reasons, spreading slows them
// down, and the kernel cannot be told to stop. So it begins only after a loss at a time when packets hardly waited.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline {

class Smoothing {
 public:
  // The state of a connection as the kernel tells it, see `struct tcp_info`.
  struct Path {
    std::uint32_t round_trip_us;           // smoothed
    std::uint32_t shortest_round_trip_us;  // of the last minutes; above `round_trip_us` if it is not known
    std::uint32_t resent;                  // packets that were sent again, in all
  };

  // A message of so many bytes has gone to the socket.
  void sent(int socket, std::size_t bytes);

  // Whether packets were lost since the last call although they hardly waited.
  bool lost_at_short_queue(const Path& path);

 private:
  bool smooth_ = false;
  std::uint32_t resent_ = 0;
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace paceline
