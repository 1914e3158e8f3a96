#include "progress/sockets.hpp"

#include <array>
#include <cerrno>
#include <system_error>

namespace paceline {

int Sockets::add(std::unique_ptr<Link> link, std::string description) {
  const int handle = link->peer();
  constexpr std::uint32_t kInterest = EPOLLIN | EPOLLRDHUP;
  if (!wakeups_.add(link->descriptor(), static_cast<std::uint64_t>(handle), kInterest))
    throw std::system_error(errno, std::generic_category(), "cannot listen to " + description);
  peers_.add(std::move(link), std::move(description)).interest = kInterest;
  return handle;
}

void Sockets::set_interest(bool reading) {
  for (Link* link : peers_.tcp_links()) {
    Peer& peer = peers_[link->peer()];
    if (peer.lost) continue;
    std::uint32_t interest = EPOLLRDHUP;
    if (reading) interest |= EPOLLIN;
    if (link->wants_write()) interest |= EPOLLOUT;
    if (interest == peer.interest) continue;
    peer.interest = interest;
    wakeups_.change(link->descriptor(), static_cast<std::uint64_t>(link->peer()), interest);
  }
}

void Sockets::poll() {
  set_interest(true);
  std::array<epoll_event, 64> events;
  const int ready = wakeups_.wait(events, 0);
  if (ready > 0) handle(std::span(events).first(static_cast<std::size_t>(ready)));
}

void Sockets::handle(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    // The engine may have been closed since.
    if (!Wakeups::is_socket(event) || !peers_.has(static_cast<int>(event.data.u64))) continue;
    Peer& peer = peers_[static_cast<int>(event.data.u64)];
    if (peer.lost) continue;
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
      if (operations_.empty()) peer.sent_ahead_of = operations_.last_id();
      peer.link->on_readable(inbox_);
    }
    if (!peer.lost && (event.events & EPOLLOUT) != 0) peer.link->poll(inbox_);
  }
}

}  // namespace paceline
