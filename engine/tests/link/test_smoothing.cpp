// The kernel spreads a stream's packets only after a loss, which these streams do not have.
#include <sys/socket.h>

#include "link/smoothing.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

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
  smoothing.plan(socket, 1e6);
  smoothing.sent(socket, std::size_t{1} << 20);
  CHECK(limit() == before);
}
