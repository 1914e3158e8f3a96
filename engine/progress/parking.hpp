// How a thread of the loop goes to sleep without missing news, and what it does when it wakes up.
#pragma once

#include "progress/active_operations.hpp"
#include "progress/deadlines.hpp"
#include "progress/loop.hpp"
#include "progress/sleepers.hpp"
#include "progress/sockets.hpp"

namespace paceline {

class Parking {
 public:
  Parking(const Peers& peers, Sleepers& sleepers, Sockets& sockets, Loop& loop, ActiveOperations& operations,
          Deadlines& deadlines)
      : peers_(peers),
        sleepers_(sleepers),
        sockets_(sockets),
        loop_(loop),
        operations_(operations),
        deadlines_(deadlines) {}

  // Sleeps until a socket, a peer's doorbell or another thread has news. One thread listens; the others wait for it.
  // `server`: no caller waits.
  void park(Sleepers::Lock& lock, CpuMeter& meter, bool server);
  // The calling thread goes its own way: the server moves operations on, at once if there is `work`, else when there is
  // news.
  void leave_to_server(bool work);
  // The same, where all that is under way is patient: the server need not wake up for it, but for the clock.
  void leave_patient();

  // The same, where links wait for room: the server asks peers to ring once there is some.
  void leave_queues();

 private:
  bool has_news(CpuMeter& meter, bool server);

  const Peers& peers_;
  Sleepers& sleepers_;
  Sockets& sockets_;
  Loop& loop_;
  ActiveOperations& operations_;
  Deadlines& deadlines_;
};

}  // namespace paceline
