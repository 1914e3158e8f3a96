// A TCP connection in the words of an error.
#pragma once

#include <string>

namespace paceline {

// Returns "address:port to address:port" from here to the peer, empty if the socket has no address.
std::string ends_of(int socket);

// Returns ", nothing heard for 1.5 s", empty if the kernel does not tell. It also counts bytes that this rank has yet
// to read, and acknowledgements.
std::string silence_of(int socket);

}  // namespace paceline
