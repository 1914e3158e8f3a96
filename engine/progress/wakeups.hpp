// Ends the sleep of the thread that listens, because of a socket, another thread, or a clock.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "execute/operation.hpp"
#include "memory/descriptor.hpp"

namespace paceline {

class Wakeups {
 public:
  // Throws std::system_error.
  Wakeups();

  // Listens to a socket for these epoll events, which will carry `token`. Returns false, and sets errno, if the kernel
  // refuses.
  bool add(int socket, std::uint64_t token, std::uint32_t events);
  void change(int socket, std::uint64_t token, std::uint32_t events);
  void remove(int socket);

  // Sleeps for at most `milliseconds`, or for ever if they are negative. Returns how many `events` it has filled in, or
  // -1 after a signal. The engine need not be locked.
  int wait(std::span<epoll_event> events, int milliseconds) const;
  static bool is_socket(const epoll_event& event) { return event.data.u64 < kAlarm; }
  // Only the thread that listens may drain events: if another thread did, they would no longer wake it.
  void drain(std::span<const epoll_event> events);

  // Wakes the thread that listens now, or at this time. An alarm that is earlier than needed does no harm: the thread
  // that it wakes looks at the time.
  void wake();
  void set_alarm(Clock::time_point time);

  // Closes all descriptors, in a forked child.
  void close();

 private:
  static constexpr std::uint64_t kWake = ~std::uint64_t{0};
  static constexpr std::uint64_t kAlarm = kWake - 1;

  Descriptor epoll_;
  Descriptor wake_;
  Descriptor alarm_;
  Clock::time_point alarm_at_ = Clock::time_point::max();
};

}  // namespace paceline
