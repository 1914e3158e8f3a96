#include "link/pace.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "calibration/network.hpp"

namespace paceline {
// Streams that meet on a link of this machine each fill the link's queue, and packets that do not fit are lost. So all
// their windows together are as large as what the link carries in a round trip and what its queue holds. The kernel
// would find that out by losing packets. If few streams meet, each has to bring in more, and needs no queue for that.
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
  // The kernel takes twice what it is told, because it also counts its bookkeeping.
  const int half = static_cast<int>(std::max(window, calibration::kSmallestWindow) * calibration::kBufferPerWindow / 2);
  held_ = ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &half, sizeof half) == 0 || held_;
}

void Pace::let_go(int socket) {
  const int none = 0;
  held_ = ::setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &none, sizeof none) != 0;
}

}  // namespace paceline
