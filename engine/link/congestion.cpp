#include "link/congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>
#include <string_view>

namespace paceline {
namespace {

constexpr std::uint32_t kLongWayUs = 10'000;  // there and back

bool choose(int socket, std::string_view name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

}  // namespace

void avoid_bbr(int socket) {
  char name[16] = {};
  socklen_t size = sizeof name - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) return;
  if (!std::string_view(name).starts_with("bbr")) return;
  tcp_info info{};
  size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_rtt >= kLongWayUs) return;
  if (!choose(socket, "cubic")) choose(socket, "reno");
}

}  // namespace paceline
