// The threads that sleep in the engine, and what wakes them. At most one thread sleeps on the sockets: the listener.
// Other callers sleep until it wakes up; the thread in Engine::serve, the server, steps aside while callers wait.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <utility>

#include "memory/arena.hpp"
#include "progress/wakeups.hpp"

namespace paceline {

class Sleepers {
 public:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr auto kLongestPark = std::chrono::milliseconds(500);

  explicit Sleepers(Arena& arena) : arena_(arena) {}

  Wakeups& wakeups() { return wakeups_; }

  // What peers on this machine are asked to wake this rank for.
  Parked parked() const { return parked_; }
  void set_parked(Parked parked);
  // A thread listens, but peers may not know yet that they must wake it for this much.
  void let_peers_wake(Parked level = Parked::for_everything) {
    if (listening_ && parked_ < level) set_parked(level);
  }

  bool listening() const { return listening_; }
  bool server_listens() const { return server_listens_; }
  // The listener fell asleep with no operation in sight.
  bool idle_listener() const { return idle_listener_; }
  // The calling thread is the listener until a socket, a doorbell, a thread or the alarm wakes it. Returns how many
  // `events` it has filled in, or -1 after a signal. Gives up the lock meanwhile.
  int listen(Lock& lock, std::span<epoll_event> events, bool server, bool idle);
  // Sleeps until the listener wakes up, or an operation is over.
  void wait_for_listener(Lock& lock) { others_.wait_for(lock, kLongestPark); }
  // The server sleeps while callers move things on.
  void step_aside(Lock& lock) { aside_.wait_for(lock, kStepAside); }
  // Whether a signal has ended a listener's sleep since the last call.
  bool take_signal() { return std::exchange(signalled_, false); }

  void wake_callers() { others_.notify_all(); }
  void wake_listener();
  // Wakes every thread, so that the server moves operations on if no caller waits.
  void wake_server();

  // In a child the threads that sleep here do not exist, and nothing may wait for them.
  void forget_after_fork();

 private:
  // The server looks this often at whether callers still wait; the last of them also wakes it.
  static constexpr auto kStepAside = std::chrono::milliseconds(20);

  Arena& arena_;
  Wakeups wakeups_;
  std::condition_variable others_;
  std::condition_variable aside_;
  bool listening_ = false;
  bool server_listens_ = false;
  bool idle_listener_ = false;
  bool signalled_ = false;
  Parked parked_ = Parked::no;
};

}  // namespace paceline
