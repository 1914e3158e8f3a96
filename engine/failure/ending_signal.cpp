#include "failure/ending_signal.hpp"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <system_error>
#include <vector>

namespace paceline {
namespace {

constexpr std::size_t kSignals = 65;  // of Linux, from 1

struct Hearing {
  std::atomic<pid_t> process{0};  // that hears; 0 for none
  std::atomic<int> news{-1};
  std::atomic<int> first{0};           // the signal that came first
  std::array<int, kSignals> timers{};  // of each signal that is heard
  itimerspec most{};
};

Hearing hearing;
std::mutex changing;
std::vector<int> heard;

extern "C" void on_ending_signal(int signal, siginfo_t* info, void*) {
  const int before = errno;
  int none = 0;
  if (hearing.process != ::getpid()) {
    end_by(signal);  // it comes again once the handler has returned, and then does what it does by default
  } else if (info->si_code == SI_TIMER) {
    end_by(hearing.first);
  } else if (hearing.first.compare_exchange_strong(none, signal)) {
    const auto word = static_cast<std::uint64_t>(signal);
    [[maybe_unused]] const auto wrote = ::write(hearing.news, &word, sizeof word);
    ::syscall(SYS_timer_settime, hearing.timers[static_cast<std::size_t>(signal)], 0, &hearing.most, nullptr);
  }
  errno = before;
}

}  // namespace

Descriptor hear_ending_signals(std::span<const int> signals, std::chrono::seconds most) {
  const std::scoped_lock lock(changing);
  if (hearing.process == ::getpid()) return {};
  Descriptor news(::eventfd(0, EFD_CLOEXEC));
  if (!news) throw std::system_error(errno, std::generic_category(), "eventfd");
  hearing.most.it_value.tv_sec = static_cast<std::time_t>(most.count());
  hearing.news = news.get();
  hearing.first = 0;
  hearing.process = ::getpid();
  heard.clear();
  for (const int signal : signals) {
    struct sigaction now{};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    // The timer sends the same signal: what the program does with others is its own. By the kernel's own name, since
    // the C library has it in another library on older systems.
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    int& timer = hearing.timers.at(static_cast<std::size_t>(signal));
    if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0) continue;
    struct sigaction own{};
    own.sa_sigaction = on_ending_signal;
    own.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    if (::sigaction(signal, &own, nullptr) == 0) heard.push_back(signal);
  }
  return news;
}

void stop_hearing_ending_signals() {
  const std::scoped_lock lock(changing);
  if (hearing.process != ::getpid()) return;
  for (const int signal : heard) {
    struct sigaction now{};
    if (::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == on_ending_signal)
      std::signal(signal, SIG_DFL);
    ::syscall(SYS_timer_delete, hearing.timers.at(static_cast<std::size_t>(signal)));
  }
  heard.clear();
  hearing.process = 0;
  hearing.news = -1;
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  ::kill(::getpid(), signal);
}

}  // namespace paceline
