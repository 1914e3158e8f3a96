// How the loop sleeps, and what ends its sleep: sockets, peers' doorbells, other threads, a clock.
#include <sys/timerfd.h>

#include <algorithm>
#include <array>

#include "progress/engine.hpp"

namespace paceline {

// Sleeps until a socket, a peer's doorbell or another thread has news. One thread listens; others wait for it.
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
  server_listens_ = foreground_ == 0;
  idle_listener_ = !expecting;
  std::array<epoll_event, 64> events;
  if (expecting) set_alarm(next_clock());
  meter.count();
  lock.unlock();
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
  lock.lock();
  listening_ = false;
  if (ready < 0) signalled_ = true;
  if (parked_ != Parked::no) set_parked(Parked::no);
  others_.notify_all();
  if (closed_) return;
  if (ready > 0) {
    const auto seen = std::span(events).first(static_cast<std::size_t>(ready));
    drain_wakeups(seen);
    handle_sockets(seen);
  }
  poll_links();
  meter_ = &meter;
  step_operations();
  meter_ = nullptr;
  check_clocks();
  retire();
}

// Asks peers to ring, then looks around: something may have come before they could know that we sleep.
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
    if (idle_listener_) set_alarm(next_clock());
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
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = ::write(wake_.get(), &one, sizeof one);
}

// Ends the sleep of the listener; also of one that went to sleep for good, knowing of no operation: to wake it at once
// would cost a switch for nothing.
// One that rings earlier will do: whoever it wakes looks at the time.
void Engine::set_alarm(Clock::time_point time) {
  if (alarm_at_ <= time) return;
  alarm_at_ = time;
  // To the clock, 0 is never.
  const auto since =
      std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  itimerspec when{};
  when.it_value.tv_sec = since / 1'000'000'000;
  when.it_value.tv_nsec = since % 1'000'000'000;
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Engine::poll_sockets() {
  set_interest(true);
  std::array<epoll_event, 64> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (ready > 0) handle_sockets(std::span(events).first(static_cast<std::size_t>(ready)));
}

void Engine::handle_sockets(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kWakeToken || event.data.u64 == kAlarmToken) continue;
    Peer& peer = *peers_[event.data.u64];
    if (peer.lost) continue;
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer.link->on_readable(*this);
    if (!peer.lost && (event.events & EPOLLOUT) != 0) peer.link->poll(*this);
  }
}

// Only the thread that listens may drain these: drained by another, they would no longer wake it.
void Engine::drain_wakeups(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 != kWakeToken && event.data.u64 != kAlarmToken) continue;
    std::uint64_t count = 0;
    const int fd = event.data.u64 == kWakeToken ? wake_.get() : alarm_.get();
    [[maybe_unused]] const auto got = ::read(fd, &count, sizeof count);
    if (event.data.u64 == kAlarmToken) alarm_at_ = Clock::time_point::max();
  }
}

// Idle ranks do not read: what peers send ahead waits in the kernel, which slows them down in time.
void Engine::set_interest(bool reading) {
  for (Link* link : tcp_links_) {
    Peer& peer = *peers_[static_cast<std::size_t>(link->peer())];
    if (peer.lost) continue;
    std::uint32_t interest = EPOLLRDHUP;
    if (reading) interest |= EPOLLIN;
    if (link->wants_write()) interest |= EPOLLOUT;
    if (interest == peer.interest) continue;
    peer.interest = interest;
    epoll_event event{};
    event.events = interest;
    event.data.u64 = static_cast<std::uint64_t>(link->peer());
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link->descriptor(), &event);
  }
}

}  // namespace paceline
