// The sockets of the links to peers: those on other machines carry data, those on this machine only end.
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <span>
#include <string>

#include "link/link.hpp"
#include "progress/active_operations.hpp"
#include "progress/peers.hpp"
#include "progress/wakeups.hpp"

namespace paceline {

class Sockets {
 public:
  Sockets(Peers& peers, Wakeups& wakeups, Inbox& inbox, const ActiveOperations& operations)
      : peers_(peers), wakeups_(wakeups), inbox_(inbox), operations_(operations) {}

  // Adds a peer, and listens to its socket. Throws std::system_error.
  int add(std::unique_ptr<Link> link, std::string description);
  // Listens for data only while `reading`. A rank that is idle does not read: what peers send ahead waits in the
  // kernel, which slows them down in time.
  void set_interest(bool reading);
  // Looks at all sockets, without waiting.
  void poll();
  // Reads what has come. Whichever thread does so with nothing under way notes who sent it: that peer may wait for this
  // rank, see Whereabouts::tell_line.
  void handle(std::span<const epoll_event> events);

 private:
  Peers& peers_;
  Wakeups& wakeups_;
  Inbox& inbox_;
  const ActiveOperations& operations_;
};

}  // namespace paceline
