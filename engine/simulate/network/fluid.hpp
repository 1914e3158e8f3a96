// Streams of bytes that share links, each like a fluid: at every moment the rates are max-min fair, so no stream could
// be faster without making one slower that is no faster than it (Bertsekas, Gallager 1992, "Data Networks", section
// 6.5.2). A TCP connection with the same round-trip time as its neighbours gets about this share in the long run.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "simulate/network/tree.hpp"

namespace paceline::simulate {

class Fluid {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit Fluid(const Tree& tree);

  // A stream along these directions of links, which carries nothing yet; streams are numbered from 0.
  std::size_t add(const std::vector<int>& links);
  // Lets an idle stream carry `bytes`, from the time of the last `advance` on.
  void start(std::size_t stream, double bytes);
  // The time at which the next stream ends, or at which rates change; kNever if no stream carries anything.
  double next();
  // Moves on to a time that is not after `next`. Appends the streams that have ended.
  void advance(double to, std::vector<std::size_t>& ended);
  // Bytes that have crossed each direction of a link when a stream last began or ended.
  const std::vector<double>& carried() const { return carried_; }

 private:
  // A direction of a link. A token bucket lets its bytes cross without a limit until it is empty.
  struct Link {
    double speed = 0;   // bytes per second
    double depth = 0;   // bytes of its bucket
    double tokens = 0;  // bytes
    bool open = false;  // the bucket has something
    double used = 0;    // bytes per second
    // While rates are shared:
    double left = 0;  // bytes per second
    std::size_t undecided = 0;
    std::vector<std::size_t> streams;
  };
  struct Stream {
    std::vector<std::size_t> links;
    double left = 0;  // bytes
    double rate = 0;  // bytes per second
  };

  void share();
  double soonest() const;
  // Brings streams, buckets and what has been carried to the present.
  void settle();

  std::vector<Link> links_;
  std::vector<Stream> streams_;
  std::vector<std::size_t> active_;
  std::vector<double> carried_;
  std::vector<std::size_t> used_;     // links that active streams cross
  std::vector<std::size_t> buckets_;  // links that have one
  double now_ = 0;
  double settled_ = 0;    // the time that streams are at
  double next_ = kNever;  // the time of the next change, while the rates are shared
  bool shared_ = true;    // the rates are those of the active streams
};

}  // namespace paceline::simulate
