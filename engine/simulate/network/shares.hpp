// What each stream gets of the links that it crosses: max-min fair rates, so no stream could be faster without making
// one slower that is no faster than it (Bertsekas, Gallager 1992, "Data Networks", section 6.5.2).
//
// Every stream is held by its bottleneck: a full link on which no stream is faster. The streams that a link holds all
// have the same rate, its level. Where a stream begins or ends, few levels change (Ros-Giralt et al. 2019, "On the
// bottleneck structure of congestion-controlled networks"), and only those are found anew, in rising order, as
// progressive filling would find all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulate/network/least.hpp"

namespace paceline::simulate {

class Shares {
 public:
  using Number = std::uint32_t;
  static constexpr Number kNone = ~Number{0};

  // Links are numbered from 0. Capacities, rates and levels are bytes per second, and finite.
  explicit Shares(const std::vector<double>& capacities);

  // A stream that crosses these links, one at least, and carries nothing yet; streams are numbered from 0.
  Number add(const std::vector<int>& links);
  // These take effect with the next `share`.
  void begin(Number stream);
  void end(Number stream);
  void limit(Number link, double capacity);

  // Makes the rates fair.
  void share();
  bool fair() const { return changes_.empty() && limited_.empty(); }
  // The links whose level or whose held streams the last `share` has changed, and those whose load it has.
  const std::vector<Number>& relevelled() const { return relevelled_; }
  const std::vector<Number>& touched() const { return touched_; }

  double rate(Number stream) const { return streams_[stream].rate; }
  // The link that holds a stream; kNone if it carries nothing.
  Number holder(Number stream) const { return streams_[stream].holder; }
  const std::vector<Number>& held(Number link) const { return links_[link].held; }
  double level(Number link) const { return links_[link].level; }
  double load(Number link) const { return links_[link].load; }

 private:
  struct Crossing {
    Number stream = 0;
    Number link = 0;
    Number place = 0;  // in the link's crossings
  };
  struct Link {
    double capacity = 0;
    double load = 0;     // of the streams that are held
    double level = 0;    // while it holds any
    Number free = 0;     // streams that no link holds yet
    bool exact = false;  // the level in `next_` is the one at which it is full
    bool stale = false;  // it is in one of the lists below
    bool touched = false;
    bool relevelled = false;
    std::vector<Number> crossings;
    std::vector<double> rates;  // of these, kFree for those that no link holds yet
    std::vector<Number> held;   // streams
  };
  struct Stream {
    Number first = 0;  // of its crossings
    Number last = 0;   // one more
    Number holder = kNone;
    Number place = 0;   // in what that holds
    double rate = 0;    // before this sharing, if no link holds it
    bool here = false;  // its crossings are on their links
    bool carries = false;
    bool changes = false;
  };

  static constexpr double kFree = std::numeric_limits<double>::infinity();

  void join(Stream& stream);
  void leave(Stream& stream);
  void drop(Stream& stream);
  void release(Number link);
  void release_slack();
  void touch(Number link);
  void rebound(Number link);
  void relevel(Number link);
  void change(Number stream, bool carries);
  // No more than the level at which a link is full.
  static double bound(const Link& link);
  static double fill(const Link& link, double from);
  void hold(Number link, double level);

  std::vector<Link> links_;
  std::vector<Stream> streams_;
  std::vector<Crossing> crossings_;
  std::vector<Number> changes_;  // streams that have begun or ended since the last sharing
  std::vector<Number> limited_;
  std::vector<Number> slack_;  // links that hold streams and are not full any more
  std::vector<Number> stale_;  // links whose bound is to be reckoned anew
  std::vector<Number> touched_;
  std::vector<Number> relevelled_;
  Least next_;  // by link: the level at which it is full, or a bound; infinite if it cannot be
};

}  // namespace paceline::simulate
