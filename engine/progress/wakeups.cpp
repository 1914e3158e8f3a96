#include "progress/wakeups.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <system_error>

namespace paceline {
namespace {

Descriptor checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return Descriptor(fd);
}

epoll_event event_of(std::uint64_t token, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  return event;
}

}  // namespace

Wakeups::Wakeups()
    : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      alarm_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")) {
  add(wake_.get(), kWake, EPOLLIN);
  add(alarm_.get(), kAlarm, EPOLLIN);
}

bool Wakeups::add(int socket, std::uint64_t token, std::uint32_t events) {
  epoll_event event = event_of(token, events);
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) == 0;
}

void Wakeups::change(int socket, std::uint64_t token, std::uint32_t events) {
  epoll_event event = event_of(token, events);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
}

void Wakeups::remove(int socket) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr); }

int Wakeups::wait(std::span<epoll_event> events, int milliseconds) const {
  return ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
}

void Wakeups::drain(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (is_socket(event)) continue;
    std::uint64_t count = 0;
    const int fd = event.data.u64 == kWake ? wake_.get() : alarm_.get();
    [[maybe_unused]] const auto got = ::read(fd, &count, sizeof count);
    if (event.data.u64 == kAlarm) alarm_at_ = Clock::time_point::max();
  }
}

void Wakeups::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = ::write(wake_.get(), &one, sizeof one);
}

void Wakeups::set_alarm(Clock::time_point time) {
  if (alarm_at_ <= time) return;
  alarm_at_ = time;
  // For timerfd_settime, 0 means never.
  const auto since =
      std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  itimerspec when{};
  when.it_value.tv_sec = since / 1'000'000'000;
  when.it_value.tv_nsec = since % 1'000'000'000;
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Wakeups::close() {
  epoll_.reset();
  wake_.reset();
  alarm_.reset();
}

}  // namespace paceline
