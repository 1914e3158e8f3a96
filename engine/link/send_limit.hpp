// How fast a stream may send, once a short queue on the way has dropped packets of it.
//
// TCP finds out what a link carries by filling its queue. Where there is hardly any, as at a policer, it goes on losing
// packets, and each loss holds up a whole collective. So from the first such loss on a stream sends no faster than its
// share of the links by the plan, which all streams together do not exceed.
//
// The plan may take a link for slower than it is. So a stream that has run at its limit for a while without a loss is
// lifted step by step, as BBR probes for bandwidth (Cardwell et al., ACM Queue 14 (5), 2016). The loss that ends the
// climb takes the last step back. As it costs time, every further climb begins after twice as long.
#pragma once

#include <cstdint>
#include <limits>

#include "calibration/network.hpp"

namespace paceline {

class SendLimit {
 public:
  // The state of a connection as the kernel tells it, see `struct tcp_info`.
  struct Path {
    std::uint32_t round_trip_us;           // smoothed
    std::uint32_t shortest_round_trip_us;  // of the last minutes; above `round_trip_us` if it is not known
    std::uint32_t resent;                  // packets that were sent again, in all
    std::uint64_t acknowledged = 0;        // bytes, in all
    std::uint64_t busy_us = 0;             // for how long there was something to send or on its way, in all
  };

  // Bytes per second of this stream while all streams of a plan flow; infinite if that is unknown.
  void plan(double bytes_per_second);
  // Takes note of what has happened to the stream since the last call.
  void look(const Path& path);

  // Bytes per second, infinite if the plan knows none; 0 before the first loss at a short queue, when there is no
  // limit.
  double now() const { return now_; }

 private:
  void lost();
  void ran_at_limit(double seconds);

  double planned_ = std::numeric_limits<double>::infinity();
  double now_ = 0;
  Path last_{};
  bool climbing_ = false;
  double untroubled_ = 0;  // seconds at the limit since the last loss or step
  double since_step_ = 0;  // seconds since the last step back
  double pause_ = calibration::kLiftPause;
};

}  // namespace paceline
