// Which congestion control a stream to another machine uses.
#pragma once

namespace paceline {

// BBR paces a stream by what it carried before. A stream of a collective is idle while others have their turn, which
// BBR takes for a slow link: it then waits for tens of milliseconds between packets; and for 200 ms of every 10 s it
// sends four a round trip. So a connection for which the system chose it takes CUBIC, or where that is not allowed
// Reno. Over long ways, where CUBIC and Reno suffer from every packet that is lost by chance, it stays.
void avoid_bbr(int socket);

}  // namespace paceline
