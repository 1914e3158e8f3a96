#include "link/send_limit.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace paceline {
namespace {

double step() { return 1 + calibration::kLift; }

}  // namespace

void SendLimit::plan(double bytes_per_second) {
  if (bytes_per_second == planned_) return;
  planned_ = bytes_per_second;
  if (now_ == 0) return;
  now_ = planned_;
  climbing_ = false;
  untroubled_ = 0;
  pause_ = calibration::kLiftPause;
}

void SendLimit::look(const Path& path) {
  const Path before = std::exchange(last_, path);
  const double seconds = static_cast<double>(path.busy_us - before.busy_us) * 1e-6;
  since_step_ += seconds;
  if (path.resent > before.resent) {
    const bool known = path.shortest_round_trip_us <= path.round_trip_us;
    const std::chrono::microseconds waited(known ? path.round_trip_us - path.shortest_round_trip_us : 0);
    if (known && waited < calibration::kShortQueue) lost();
    untroubled_ = 0;
  } else if (now_ > 0) {
    // A stream that others hold back says nothing about what the links would carry.
    const double sent = static_cast<double>(path.acknowledged - before.acknowledged);
    const bool at_limit = sent * step() >= now_ * seconds;
    if (at_limit) ran_at_limit(seconds);
  }
}

// What was sent too fast is lost and sent again for a while after the step back.
void SendLimit::lost() {
  if (now_ == 0) {
    now_ = planned_;
  } else if (climbing_ || since_step_ > calibration::kLiftTrial) {
    now_ = std::max(planned_, now_ / step());
    since_step_ = 0;
  }
  climbing_ = false;
}

void SendLimit::ran_at_limit(double seconds) {
  untroubled_ += seconds;
  if (untroubled_ < (climbing_ ? calibration::kLiftTrial : pause_)) return;
  if (!climbing_) pause_ = std::min(2 * pause_, calibration::kLongestLiftPause);
  climbing_ = true;
  untroubled_ = 0;
  now_ = now_ * step();
}

}  // namespace paceline
