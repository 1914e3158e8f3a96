// What the kernel counts of a TCP connection, and glibc's tcp_info (netinet/tcp.h) lacks.
#pragma once

#include <cstdint>

namespace paceline {

// Bytes that have arrived in order since the connection began, read or not (tcpi_bytes_received, RFC 4898's
// tcpEStatsAppHCThruOctetsReceived); 0 where this is no TCP socket, or the kernel does not count them.
std::uint64_t tcp_bytes_received(int socket);

}  // namespace paceline
