// Streams of bytes that share links, each like a fluid: at every moment the rates are max-min fair (see Shares). A TCP
// connection with the same round-trip time as its neighbours gets about this share in the long run.
//
// All streams that a link holds are served at the same rate, so each link counts the bytes that a stream would have got
// that it had held from the beginning. A stream ends when its link has counted so far, whatever the rate was meanwhile,
// as in a queue that shares a processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulate/network/least.hpp"
#include "simulate/network/shares.hpp"
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
  // Moves on to a time that is not after `next`. Appends the streams that have ended, in the order in which they began.
  void advance(double to, std::vector<std::size_t>& ended);
  // Bytes of the streams that have ended, by direction of a link.
  const std::vector<double>& carried() const { return carried_; }
  double rate(std::size_t stream) const { return shares_.rate(static_cast<Shares::Number>(stream)); }

 private:
  struct Link {
    double served = 0;      // bytes of a stream that it holds, until `since`
    double level = 0;       // bytes per second, from then on
    double since = 0;       // seconds
    double first = kNever;  // the bytes that it has served when the first of its streams ends

    double served_at(double now) const { return served + level * (now - since); }
  };
  // A token bucket lets the bytes of its link cross without a limit until it is empty.
  struct Bucket {
    double speed = 0;   // bytes per second
    double depth = 0;   // bytes; 0 for a link that has none
    double tokens = 0;  // bytes, at `since`
    double load = 0;    // bytes per second, from then on
    double since = 0;   // seconds
    bool open = true;   // it has something
  };
  struct Stream {
    std::vector<int> links;
    double bytes = 0;
    double end = 0;                        // the bytes that its link has served then
    Shares::Number clock = Shares::kNone;  // that link; none before any holds it
    std::uint64_t order = 0;
  };

  void share();
  void hold_anew(Shares::Number link);
  void plan_end(Shares::Number link);
  void end_first(Shares::Number link, std::vector<std::size_t>& ended);
  void plan_turn(Shares::Number link);
  void turn(Shares::Number link);

  std::vector<Link> links_;
  std::vector<Bucket> buckets_;  // by link
  std::vector<Stream> streams_;
  std::vector<double> carried_;
  Shares shares_;
  Least ends_;   // by link: when the first of its streams ends, in seconds
  Least turns_;  // by link: when its bucket becomes empty, or has something again, in seconds
  double now_ = 0;
  std::uint64_t starts_ = 0;
};

}  // namespace paceline::simulate
