// A stream is limited after a loss at a short queue, and neither before one nor after one at a long queue; and a link
// that carries more than the plan believes is found out.
#include <algorithm>
#include <cmath>

#include "calibration/network.hpp"
#include "link/send_limit.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr auto kShort = static_cast<std::uint32_t>(calibration::kShortQueue.count()) - 1;
constexpr std::uint32_t kShortest = 80;
constexpr double kPlanned = 25e6;  // bytes per second
constexpr double kStep = 1 + calibration::kLift;

// A stream over a link that drops what is above its rate, looked at every 10 ms of sending. What is lost is sent again
// for 100 ms.
class Stream {
 public:
  explicit Stream(double link) : link_(link) {
    limit.plan(kPlanned);
    limit.look(path_);
    lose();
  }

  void lose() {
    ++path_.resent;
    limit.look(path_);
  }

  // Sends for so long, at the limit or more slowly, and returns how often the limit rose.
  int send(double seconds, double most = HUGE_VAL) {
    int rises = 0;
    for (double end = now_ + seconds; now_ < end; now_ += 0.01) {
      const double before = limit.now();
      const double rate = std::min(before, most);
      path_.busy_us += 10'000;
      path_.acknowledged += static_cast<std::uint64_t>(std::min(rate, link_) * 0.01);
      if (rate > link_) resends_ = 10;
      if (resends_ > 0) {
        --resends_;
        ++path_.resent;
      }
      limit.look(path_);
      rises += limit.now() > before ? 1 : 0;
    }
    return rises;
  }

  SendLimit limit;

 private:
  double link_;
  double now_ = 0;
  int resends_ = 0;
  SendLimit::Path path_{kShortest, kShortest, 0};
};

}  // namespace

TEST(only_a_loss_at_a_short_queue_limits) {
  SendLimit limit;
  limit.plan(kPlanned);
  for (const SendLimit::Path& path : {
           SendLimit::Path{kShortest, kShortest, 0},
           SendLimit::Path{kShortest + kShort + 1, kShortest, 2},
           SendLimit::Path{kShortest, kShortest, 2},          // it was lost while packets waited
           SendLimit::Path{kShortest, ~std::uint32_t{0}, 3},  // the kernel does not know how long they waited
       }) {
    limit.look(path);
    CHECK(limit.now() == 0);
  }
  limit.look({kShortest + kShort, kShortest, 4});
  CHECK(limit.now() == kPlanned);
}

TEST(a_long_way_has_no_long_queue) {
  SendLimit limit;
  limit.plan(kPlanned);
  limit.look({100'000 + kShort, 100'000, 1});
  CHECK(limit.now() == kPlanned);
}

TEST(where_the_plan_knows_no_rate_there_is_no_end) {
  SendLimit limit;
  limit.look({kShortest, kShortest, 1, 0, 0});
  CHECK(limit.now() == HUGE_VAL);
  limit.look({kShortest, kShortest, 1, 1'000'000'000, 100'000'000});
  limit.look({kShortest, kShortest, 2, 2'000'000'000, 200'000'000});
  CHECK(limit.now() == HUGE_VAL);
}

TEST(losses_at_the_planned_rate_leave_it_there) {
  Stream stream(kPlanned);
  for (int loss = 0; loss < 100; ++loss) stream.lose();
  CHECK(stream.limit.now() == kPlanned);
}

TEST(a_link_that_carries_more_than_was_believed_is_found_out) {
  for (const double times : {1.3, 2.5, 10.0}) {
    const double link = times * kPlanned;
    Stream stream(link);
    const double climb = calibration::kLiftTrial * std::log(times) / std::log(kStep);
    stream.send(calibration::kLiftPause + climb + 0.5);
    CHECK(stream.limit.now() >= link / kStep);
    for (int second = 0; second < 1000; ++second) {
      stream.send(1);
      CHECK(stream.limit.now() >= link / kStep && stream.limit.now() <= link * kStep);
    }
  }
}

TEST(where_the_plan_is_right_it_is_tried_ever_more_seldom) {
  Stream stream(kPlanned);
  const int soon = stream.send(16 * calibration::kLiftPause);
  CHECK(soon >= 1 && soon <= 4);
  stream.send(1000);
  const int later = stream.send(10 * calibration::kLongestLiftPause);
  CHECK(later >= 8 && later <= 10);
  CHECK(stream.limit.now() >= kPlanned);
}

TEST(a_stream_that_others_hold_back_is_not_lifted) {
  Stream stream(10 * kPlanned);
  CHECK(stream.send(1000, kPlanned / kStep / 1.01) == 0);
  CHECK(stream.send(2 * calibration::kLiftPause, kPlanned) > 0);
}

TEST(other_plans_begin_anew) {
  Stream stream(10 * kPlanned);
  stream.send(2 * calibration::kLiftPause);
  const double lifted = stream.limit.now();
  CHECK(lifted > kPlanned);
  stream.limit.plan(kPlanned);  // the same
  CHECK(stream.limit.now() == lifted);
  stream.limit.plan(2 * kPlanned);
  CHECK(stream.limit.now() == 2 * kPlanned);
  CHECK(stream.send(0.9 * calibration::kLiftPause) == 0);
  stream.limit.plan(HUGE_VAL);  // while links are measured
  CHECK(stream.limit.now() == HUGE_VAL);
  stream.limit.plan(kPlanned);
  CHECK(stream.limit.now() == kPlanned);
}
