// How long yielding is left alone where others compute.
#include "check.hpp"
#include "progress/backoff.hpp"

using namespace paceline;

namespace {

using std::chrono::milliseconds;
constexpr auto kSlice = milliseconds(3);

}  // namespace

TEST(a_short_absence_is_no_stranger) {
  Strangers strangers;
  const Strangers::Time now{std::chrono::hours(1)};
  strangers.note(Strangers::kAbsence, now);
  CHECK(!strangers.there(now));
}

TEST(who_comes_by_once_is_soon_forgotten) {
  Strangers strangers;
  Strangers::Time now{std::chrono::hours(1)};
  for (int i = 0; i < 100; ++i) {
    strangers.note(kSlice, now);
    CHECK(strangers.there(now) && strangers.there(now + Strangers::kShortest / 2));
    CHECK(!strangers.there(now + Strangers::kShortest));
    now += Strangers::kShortest * 4;
  }
}

TEST(who_stays_is_met_ever_more_rarely) {
  Strangers strangers;
  const Strangers::Time begin{std::chrono::hours(1)};
  Strangers::Time now = begin;
  int met = 0;
  for (; now < begin + std::chrono::minutes(10); now += kSlice) {
    if (strangers.there(now)) continue;
    strangers.note(kSlice, now);
    ++met;
  }
  CHECK(met < 10 + std::chrono::minutes(10) / Strangers::kLongest);
  // They are gone, and later somebody comes by.
  now += Strangers::kLongest * 4;
  CHECK(!strangers.there(now));
  strangers.note(kSlice, now);
  CHECK(!strangers.there(now + Strangers::kShortest));
}
