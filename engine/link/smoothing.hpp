// Has the kernel spread a stream's packets over time once a short queue on the way has dropped some of them.
//
// TCP sends what its window allows in one go. A long queue takes that in; of a short one, or at a policer, the last
// packets of several streams that send at once are lost, and each loss holds up a whole collective. Packets that are
// spread fit. But where queues are long and streams lose for other reasons, spreading slows them down, and the kernel
// cannot be told to stop: without a limit it goes on to spread a window over the round trip. So it begins only after a
// loss at a time when packets hardly waited.
//
// The kernel does so itself (since 4.13), or the discipline `fq` where the interface has it. It then sets a timer for
// every long packet (GSO), of which there are some 2000 a second at 1 Gbit/s.
#pragma once

#include <chrono>
#include <cstddef>

#include "link/send_limit.hpp"

namespace paceline {

class Smoothing {
 public:
  // See Link::set_send_rate.
  void plan(int socket, double bytes_per_second);

  // A message of so many bytes has gone to the socket.
  void sent(int socket, std::size_t bytes);

 private:
  void set(int socket);

  SendLimit limit_;
  double told_ = 0;  // to the kernel, see SendLimit::now
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace paceline
