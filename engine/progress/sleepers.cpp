#include "progress/sleepers.hpp"

#include <atomic>
#include <new>

#include "delays/delays.hpp"

namespace paceline {

void Sleepers::set_parked(Parked parked) {
  parked_ = parked;
  // The fence comes before the look around that follows: see ShmLink::ring_doorbell and SharedSegment::begin.
  arena_.header().parked.store(parked, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  delay(Between::parked_and_look);
}

int Sleepers::listen(Lock& lock, std::span<epoll_event> events, bool server, bool idle) {
  listening_ = true;
  server_listens_ = server;
  idle_listener_ = idle;
  lock.unlock();
  delay(Between::look_and_sleep);
  const int ready = wakeups_.wait(events, -1);
  delay(Between::wake_and_lock);
  lock.lock();
  listening_ = false;
  if (ready < 0) signalled_ = true;
  if (parked_ != Parked::no) set_parked(Parked::no);
  others_.notify_all();
  if (ready > 0) wakeups_.drain(events.first(static_cast<std::size_t>(ready)));
  return ready;
}

void Sleepers::wake_listener() {
  if (!listening_) return;
  server_listens_ = idle_listener_ = false;
  wakeups_.wake();
}

// A condition variable that is destroyed waits for those that sleep on it.
void Sleepers::forget_after_fork() {
  new (&others_) std::condition_variable();
  new (&aside_) std::condition_variable();
  wakeups_.close();
}

void Sleepers::wake_server() {
  aside_.notify_all();
  others_.notify_all();
  wake_listener();
}

}  // namespace paceline
