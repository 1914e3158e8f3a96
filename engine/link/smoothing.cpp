#include "link/smoothing.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <limits>

#include "calibration/network.hpp"

namespace paceline {
namespace {

// Bytes per second that no link reaches. It makes the kernel space packets, at a rate that follows from the window and
// the round trip. Kernels before 4.20 see its lower half alone, which to them means no limit, and space nothing.
constexpr std::uint64_t kAnyRate = 0x7fff'ffff'ffff;
constexpr double kFastest = std::numeric_limits<std::uint32_t>::max();  // bytes per second that those kernels can hold

}  // namespace

void Smoothing::plan(int socket, double bytes_per_second) {
  limit_.plan(bytes_per_second);
  set(socket);
}

void Smoothing::sent(int socket, std::size_t bytes) {
  if (bytes < calibration::kLeastWatchedMessage) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + calibration::kLossLookPause;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  limit_.look({info.tcpi_rtt, info.tcpi_min_rtt, info.tcpi_total_retrans, info.tcpi_bytes_acked, info.tcpi_busy_time});
  set(socket);
}

void Smoothing::set(int socket) {
  if (limit_.now() == told_) return;
  told_ = limit_.now();
  const std::uint64_t rate = told_ < kFastest ? static_cast<std::uint64_t>(told_) : kAnyRate;
  ::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

}  // namespace paceline
