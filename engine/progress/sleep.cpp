// How the loop sleeps, and what ends its sleep: sockets, peers' doorbells, other threads, a clock.
#include <algorithm>
#include <array>

#include "progress/engine.hpp"

namespace paceline {

// Sleeps until a socket, a peer's doorbell or another thread has news. One thread listens; the others wait for it.
void Engine::park(std::unique_lock<std::mutex>& lock, CpuMeter& meter) {
  const bool expecting = !active_.empty();
  if (listening_) {
    if (server_listens_) {
      wake_listener();  // nobody rings for the server while callers wait: take its place
    } else if (expecting && news_while_parking(meter)) {
      return;
    }
    others_.wait_for(lock, kLongestPark);
    return;
  }
  if (expecting && news_while_parking(meter)) return;
  set_interest(expecting);
  listening_ = true;
  server_listens_ = callers_.count() == 0;
  idle_listener_ = !expecting;
  std::array<epoll_event, 64> events;
  if (expecting) wakeups_.set_alarm(next_clock());
  meter.count();
  lock.unlock();
  const int ready = wakeups_.wait(events, -1);
  lock.lock();
  listening_ = false;
  if (ready < 0) signalled_ = true;
  if (parked_ != Parked::no) set_parked(Parked::no);
  others_.notify_all();
  if (closed_) return;
  if (ready > 0) {
    const auto seen = std::span(events).first(static_cast<std::size_t>(ready));
    wakeups_.drain(seen);
    handle_sockets(seen);
  }
  poll_links();
  meter_ = &meter;
  step_operations();
  meter_ = nullptr;
  check_clocks();
  retire();
}

// Asks peers to ring, then looks around: something may have come before they could know that this rank sleeps.
bool Engine::news_while_parking(CpuMeter& meter) {
  const bool for_everything =
      std::ranges::any_of(active_, [](const auto& operation) { return operation->awaits_acknowledgements(); });
  set_parked(for_everything ? Parked::for_everything : Parked::for_news);
  const bool news = poll_links();
  meter_ = &meter;
  const bool moved = step_operations();
  meter_ = nullptr;
  if (!moved && !news) return false;
  set_parked(Parked::no);
  retire();
  return true;
}

void Engine::set_parked(Parked parked) {
  parked_ = parked;
  // Before the look around that follows it: see ShmLink::ring_doorbell and SharedSegment::begin.
  arena_->header().parked.store(parked, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Engine::leave_to_server(bool now) {
  if (now || !listening_) {
    wake_server();
  } else {
    set_interest(true);
    // The listener went to sleep knowing of no operation. Waking it at once would cost a switch for nothing.
    if (idle_listener_) wakeups_.set_alarm(next_clock());
  }
}

void Engine::wake_server() {
  aside_.notify_all();
  others_.notify_all();
  wake_listener();
}

void Engine::wake_listener() {
  if (!listening_) return;
  server_listens_ = idle_listener_ = false;
  wakeups_.wake();
}

void Engine::poll_sockets() {
  set_interest(true);
  std::array<epoll_event, 64> events;
  const int ready = wakeups_.wait(events, 0);
  if (ready > 0) handle_sockets(std::span(events).first(static_cast<std::size_t>(ready)));
}

void Engine::handle_sockets(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (!Wakeups::is_socket(event)) continue;
    Peer& peer = peers_[static_cast<int>(event.data.u64)];
    if (peer.lost) continue;
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer.link->on_readable(*this);
    if (!peer.lost && (event.events & EPOLLOUT) != 0) peer.link->poll(*this);
  }
}

// Idle ranks do not read: what peers send ahead waits in the kernel, which slows them down in time.
void Engine::set_interest(bool reading) {
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

}  // namespace paceline
