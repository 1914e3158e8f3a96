#include "link/pace.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "calibration/constants.hpp"

namespace paceline {
// Streams that come together on a link of this machine each fill its queue, and what does not fit is lost: their
// windows together are what it carries in a round trip and holds. The kernel would find that out by losing packets.
// Where few streams come together each has to bring in more, for which it needs no queue.
void Pace::set(int socket, double least, double most) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  round_trip_us_ = std::min(round_trip_us_, info.tcpi_rtt);
  const double round_trip = round_trip_us_ * 1e-6;
  const double window = std::max(least * (calibration::kQueueSeconds + round_trip), most * round_trip);
  if (window < calibration::kLargestWindow) {
    hold(socket, window);
  } else if (held_) {
    let_go(socket);
  }
}

void Pace::hold(int socket, double window) {
  // The kernel takes twice what it is told, for its bookkeeping too.
  const int half = static_cast<int>(std::max(window, calibration::kSmallestWindow) * calibration::kBufferPerWindow / 2);
  held_ = ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &half, sizeof half) == 0 || held_;
}

void Pace::let_go(int socket) {
  const int none = 0;
  held_ = ::setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &none, sizeof none) != 0;
}

}  // namespace paceline
