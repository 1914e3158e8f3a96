// A stream is smoothed after a loss at a short queue, and neither before one nor after one at a long queue.
#include <sys/socket.h>

#include "calibration/network.hpp"
#include "link/smoothing.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr auto kShort = static_cast<std::uint32_t>(calibration::kShortQueue.count()) - 1;
constexpr std::uint32_t kShortest = 80;

}  // namespace

TEST(only_a_loss_at_a_short_queue_smooths) {
  Smoothing smoothing;
  CHECK(!smoothing.lost_at_short_queue({kShortest, kShortest, 0}));
  CHECK(smoothing.lost_at_short_queue({kShortest + kShort, kShortest, 1}));
  CHECK(!smoothing.lost_at_short_queue({kShortest + kShort, kShortest, 1}));  // that loss is known
  CHECK(!smoothing.lost_at_short_queue({kShortest + kShort + 1, kShortest, 2}));
  CHECK(!smoothing.lost_at_short_queue({kShortest, kShortest, 2}));  // it was lost while packets waited
  CHECK(smoothing.lost_at_short_queue({kShortest, kShortest, 4}));
}

TEST(a_long_way_has_no_long_queue) {
  Smoothing smoothing;
  CHECK(smoothing.lost_at_short_queue({100'000 + kShort, 100'000, 1}));
}

TEST(what_the_kernel_does_not_know_smooths_nothing) {
  Smoothing smoothing;
  CHECK(!smoothing.lost_at_short_queue({kShortest, ~std::uint32_t{0}, 1}));
}

TEST(a_stream_without_losses_keeps_its_pace) {
  const auto [socket, other] = tcp_pair();
  const Descriptor mine(socket), peer(other);
  const auto limit = [&, socket = socket] {
    std::uint64_t rate = 0;
    socklen_t size = sizeof rate;
    CHECK(::getsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size) == 0);
    return rate;
  };
  const std::uint64_t before = limit();
  Smoothing smoothing;
  smoothing.sent(socket, std::size_t{1} << 20);
  CHECK(limit() == before);
}
