// What messages each way tell of a peer's clock.
#include <random>

#include "link/tcp.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;
using namespace std::chrono_literals;

namespace {

constexpr PeerClock::Time kBegin{1000s};

std::int64_t ns(std::chrono::nanoseconds time) { return time.count(); }

class Nobody final : public Inbox {
 public:
  std::unique_ptr<Arrival> new_arrival() override { return std::make_unique<Arrival>(); }
  void deliver(std::unique_ptr<Arrival>) override { ++messages; }
  StreamSink* expect(int, const Header&) override { return nullptr; }
  void lost(int, const std::string&) override {}
  void garbled(int, const std::string&) override {}
  int messages = 0;
};

}  // namespace

TEST(the_difference_of_two_clocks_lies_within_the_bounds_that_messages_give) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto ahead =
        std::chrono::nanoseconds(static_cast<std::int64_t>(random() % 7'200'000'000'000) - 3'600'000'000'000);
    PeerClock here;
    PeerClock there;
    auto now = kBegin;
    auto longest = 0ns;
    for (int i = 0; i < 20; ++i) {
      now += std::chrono::milliseconds(random() % 300);
      const auto out = std::chrono::microseconds(50 + random() % 100'000);
      const auto back = std::chrono::microseconds(50 + random() % 100'000);
      const std::int64_t told = here.tell(now);
      there.hear(ns(now.time_since_epoch()), ns((now + out).time_since_epoch() + ahead), told, now + out);
      const std::int64_t answer = there.tell(now + out);
      here.hear(ns((now + out).time_since_epoch() + ahead), ns((now + out + back).time_since_epoch()), answer,
                now + out + back);
      longest = std::max<std::chrono::nanoseconds>(longest, out + back);
    }
    const auto bounds = here.bounds();
    CHECK(bounds && bounds->least <= ns(ahead) && ns(ahead) <= bounds->most);
    CHECK(bounds->most - bounds->least <= ns(longest));
  }
}

TEST(a_clock_of_which_one_side_has_heard_nothing_is_unknown) {
  PeerClock clock;
  CHECK(!clock.bounds());
  clock.hear(5, 9, PeerClock::kNothing, kBegin);
  CHECK(!clock.bounds());
  clock.hear(5, 9, 3, kBegin);
  CHECK(clock.bounds() && clock.bounds()->least == -4 && clock.bounds()->most == 3);
}

TEST(what_was_heard_long_ago_counts_no_more) {
  PeerClock clock;
  clock.hear(1'000, 1'100, 100, kBegin);
  clock.hear(1'000, 1'900, 100, kBegin + 60s);  // it drifts away
  CHECK(clock.bounds() && clock.bounds()->least == -900);
}

TEST(a_peer_may_say_anything_of_its_clock) {
  for (const std::int64_t told : {std::numeric_limits<std::int64_t>::min(), PeerClock::kNothing, std::int64_t{0}})
    for (const std::int64_t sent : {std::numeric_limits<std::int64_t>::min(), PeerClock::kNothing, std::int64_t{-1}}) {
      PeerClock clock;
      clock.hear(sent, 1, told, kBegin);
      const auto bounds = clock.bounds();
      CHECK(!bounds || bounds->least <= bounds->most);
    }
}

// Over real sockets, of which one is read 50 ms late, as that of a rank that computes.
TEST(a_link_that_is_read_late_tells_the_clock_as_well) {
  std::vector<std::byte> scratch(1 << 16);
  const auto [one, other] = tcp_pair();
  TcpLink here(0, Descriptor(one), scratch);
  TcpLink there(0, Descriptor(other), scratch);
  Nobody inbox;
  for (int i = 0; i < 4; ++i) {
    Message message;
    here.post(message);
    std::this_thread::sleep_for(50ms);
    there.on_readable(inbox);
    CHECK(message.done);
    here.on_readable(inbox);
  }
  CHECK(inbox.messages == 4);
  const auto bounds = here.clock();
  CHECK(bounds && bounds->least <= 0 && bounds->most >= 0);
  CHECK(bounds->most - bounds->least < ns(50ms));
}
