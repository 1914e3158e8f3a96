#include "link/tcp_ends.hpp"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>

namespace paceline {
namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);

// Writes one end of a connection as address:port; returns an empty string if it has no address.
std::string end_of(int socket, Name name) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  const bool six = address.ss_family == AF_INET6;
  return (six ? "[" : "") + std::string(host) + (six ? "]:" : ":") + port;
}

}  // namespace

std::string ends_of(int socket) {
  const std::string here = end_of(socket, ::getsockname);
  return here.empty() ? here : here + " to " + end_of(socket, ::getpeername);
}

std::string silence_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  const double seconds = std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv) / 1000.0;
  char text[64];
  std::snprintf(text, sizeof text, ", nothing heard for %.1f s", seconds);
  return text;
}

}  // namespace paceline
