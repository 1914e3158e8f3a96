#include "link/smoothing.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "calibration/network.hpp"

namespace paceline {
namespace {

// Bytes per second that no link reaches. It makes the kernel space packets, at a rate that follows from the window and
// the round trip. Kernels before 4.20 see its lower half alone, which to them means no limit, and space nothing.
constexpr std::uint64_t kAnyRate = 0x7fff'ffff'ffff;

}  // namespace

void Smoothing::sent(int socket, std::size_t bytes) {
  if (smooth_ || bytes < calibration::kLeastWatchedMessage) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + calibration::kLossLookPause;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (!lost_at_short_queue({info.tcpi_rtt, info.tcpi_min_rtt, info.tcpi_total_retrans})) return;
  smooth_ = true;
  ::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &kAnyRate, sizeof kAnyRate);
}

bool Smoothing::lost_at_short_queue(const Path& path) {
  const bool lost = path.resent > std::exchange(resent_, path.resent);
  const bool known = path.shortest_round_trip_us <= path.round_trip_us;
  const std::chrono::microseconds waited(known ? path.round_trip_us - path.shortest_round_trip_us : 0);
  return lost && known && waited < calibration::kShortQueue;
}

}  // namespace paceline
