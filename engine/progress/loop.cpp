// The one loop: take in what has arrived, move every operation on, and wait well when nothing moves.
#include <pthread.h>
#include <sched.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "progress/engine.hpp"
#include "progress/slice.hpp"

namespace paceline {
namespace {

constexpr auto kStepAside = std::chrono::milliseconds(20);
constexpr auto kLongestPark = std::chrono::milliseconds(500);
constexpr unsigned kPassesPerClock = 64;
constexpr unsigned kPassesPerSocketLook = 256;

}  // namespace

// While a caller waits, it is the one that moves things on, and peers need not wake anybody.
class Engine::Foreground {
 public:
  explicit Foreground(Engine& engine) : engine_(engine) {
    engine_.settle_exposed();
    ++engine_.foreground_;
    if (engine_.parked_flags_) engine_.set_parked(false);
  }
  ~Foreground() {
    engine_.settle_exposed();
    if (--engine_.foreground_ > 0) {
      engine_.others_.notify_all();
    } else if (!engine_.active_.empty() || !engine_.finished_.empty()) {
      engine_.wake_server();
    }
  }
  Foreground(const Foreground&) = delete;
  Foreground& operator=(const Foreground&) = delete;

 private:
  Engine& engine_;
};

void Engine::wait_locked(std::unique_lock<std::mutex>& lock, Operation& operation) {
  if (operation.over()) {
    retire();
    return;
  }
  const Foreground foreground(*this);
  operation.waiter = std::bit_cast<std::uintptr_t>(::pthread_self());
  Backoff backoff(caller_budget_);
  CpuMeter meter(coordination_cpu_ns_);
  while (!operation.over()) {
    // Its own waiting is a caller's own affair, but not that which a policy wants of it.
    if (coordinators_ > 0) {
      const Rest wanted = rest();
      meter.turn_to(wanted == Rest::spin || wanted == Rest::yield ? CpuMeter::Work::coordination
                                                                  : CpuMeter::Work::other);
    }
    if (progress(meter)) {
      backoff.reset();
      if (contenders_.load(std::memory_order_relaxed) == 0) continue;
      lock.unlock();
      ::sched_yield();
      lock.lock();
    } else if (!operation.over() && pause(lock, backoff, meter) && interrupted_) {
      check_interrupt(lock, operation);
    }
  }
}

void Engine::check_interrupt(std::unique_lock<std::mutex>& lock, Operation& operation) {
  lock.unlock();
  const bool interrupted = interrupted_();
  lock.lock();
  if (!interrupted || operation.over()) return;
  Group& group = *operation.group;
  fail_group(group, {ErrorKind::aborted, group.name_of(group.rank) + " was interrupted"});
  retire();
}

std::vector<std::uint64_t> Engine::serve() {
  auto lock = enter();
  Backoff backoff(server_budget_);
  CpuMeter meter(coordination_cpu_ns_);
  while (finished_.empty() && !closed_) {
    const bool coordinates = coordinators_ > 0 && !moves_data();
    meter.turn_to(coordinates ? CpuMeter::Work::coordination : CpuMeter::Work::other);
    if (foreground_ > 0) {
      aside_.wait_for(lock, kStepAside);
    } else if (active_.empty()) {
      park(lock, meter);
      backoff.reset();
    } else if (progress(meter)) {
      backoff.reset();
      if (contenders_.load(std::memory_order_relaxed) > 0) {
        lock.unlock();
        ::sched_yield();
        lock.lock();
      }
    } else if (coordinates && rest() == Rest::well) {
      park(lock, meter);  // nobody waits, and who has news rings
    } else if (!active_.empty()) {
      pause(lock, backoff, meter);
    }
  }
  if (closed_) return {};
  return std::exchange(finished_, {});
}

bool Engine::pause(std::unique_lock<std::mutex>& lock, Backoff& backoff, CpuMeter& meter) {
  const Rest wanted = rest();
  const auto next = wanted == Rest::well    ? backoff.next([] { return false; })
                    : wanted == Rest::sleep ? Backoff::Next::park
                    : wanted == Rest::yield ? Backoff::Next::yield
                                            : Backoff::Next::spin;
  switch (next) {
    case Backoff::Next::spin:
      relax_cpu();
      if (contenders_.load(std::memory_order_relaxed) == 0) return false;
      [[fallthrough]];
    case Backoff::Next::yield:
      lock.unlock();
      ::sched_yield();
      lock.lock();
      return false;
    case Backoff::Next::park: park(lock, meter); return true;
  }
  return false;
}

// As the most restless of all operations wants it; only if all want to sleep they do so at once.
Rest Engine::rest() const {
  if (active_.empty()) return Rest::well;
  Rest found = Rest::sleep;
  for (const auto& operation : active_) {
    if (operation->rest == Rest::spin || found == Rest::spin) return Rest::spin;
    if (operation->rest == Rest::yield || found == Rest::sleep) found = operation->rest;
  }
  return found;
}

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
  set_interest(expecting, true);
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
  if (parked_flags_) set_parked(false);
  others_.notify_all();
  if (closed_) return;
  if (ready > 0) {
    const auto seen = std::span(events).first(static_cast<std::size_t>(ready));
    hush(seen);
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
  set_parked(true);
  const bool news = poll_links();
  meter_ = &meter;
  const bool moved = step_operations();
  meter_ = nullptr;
  if (!moved && !news) return false;
  set_parked(false);
  retire();
  return true;
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

bool Engine::moves_data() const {
  return carrying_ > 0 || std::ranges::any_of(active_, [](const auto& operation) {
           return operation->group->use == Group::Use::callers;
         });
}

bool Engine::progress(CpuMeter& meter) {
  ++passes_;
  meter_ = &meter;
  bool moved = poll_links();
  if (!tcp_links_.empty() || passes_ % kPassesPerSocketLook == 0) poll_sockets();
  moved |= step_operations();
  if (passes_ % kPassesPerClock == 0) check_clocks();
  const auto before = active_.size();
  retire();
  meter_ = nullptr;
  return moved || active_.size() != before;
}

bool Engine::poll_links() {
  bool moved = false;
  for (Link* link : shm_links_) moved |= link->poll(*this);
  for (Link* link : tcp_links_)
    if (link->wants_write()) moved |= link->poll(*this);
  return moved;
}

void Engine::poll_sockets() {
  set_interest(true, false);
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

// Only who listens takes what wakes it: anybody else would let it sleep on.
void Engine::hush(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 != kWakeToken && event.data.u64 != kAlarmToken) continue;
    std::uint64_t count = 0;
    const int fd = event.data.u64 == kWakeToken ? wake_.get() : alarm_.get();
    [[maybe_unused]] const auto got = ::read(fd, &count, sizeof count);
    if (event.data.u64 == kAlarmToken) alarm_at_ = Clock::time_point::max();
  }
}

// Idle ranks do not read: what peers send ahead waits in the kernel, which slows them down in time.
void Engine::set_interest(bool reading, bool parking) {
  for (Link* link : tcp_links_) {
    Peer& peer = *peers_[static_cast<std::size_t>(link->peer())];
    if (peer.lost) continue;
    std::uint32_t interest = EPOLLRDHUP;
    if (reading) interest |= EPOLLIN;
    if (parking && link->wants_write()) interest |= EPOLLOUT;
    if (interest == peer.interest) continue;
    peer.interest = interest;
    epoll_event event{};
    event.events = interest;
    event.data.u64 = static_cast<std::uint64_t>(link->peer());
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link->descriptor(), &event);
  }
}

void Engine::set_parked(bool parked) {
  parked_flags_ = parked;
  // Before the look around that follows it: see ShmLink::ring_doorbell and Lane::begin.
  arena_->header().parked.store(parked ? 1 : 0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Engine::step_operations() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const std::shared_ptr<Operation> keep = active_[i];
    if (!keep->over()) moved |= step(*keep);
  }
  return moved;
}

bool Engine::step(Operation& operation) {
  // While a policy has its thread spin, data moves all the same.
  const bool apart =
      operation.group->use == Group::Use::data && meter_ != nullptr && meter_->work() == CpuMeter::Work::coordination;
  if (apart) meter_->turn_to(CpuMeter::Work::other);
  const bool moved = operation.step();
  if (apart) meter_->turn_to(CpuMeter::Work::coordination);
  if (operation.trouble()) {
    poll_links();  // a peer that is gone may have left the reason behind
    if (!operation.over()) fail_group(*operation.group, explained(operation));
  } else if (operation.complete()) {
    if (operation.read_remotely()) poll_links();  // a peer that gave up has said so by now
    if (!operation.over()) operation.finish();
    return true;
  } else if (absent_peers_) {
    fail_with_absent_peers(operation);  // it may need, from now on, somebody who left before
  }
  return moved;
}

void Engine::retire() {
  bool any = false;
  for (const auto& operation : active_) {
    if (!operation->over()) continue;
    any = true;
    close_event(*operation);
    if (operation->notify) finished_.push_back(operation->id);
  }
  if (!any) return;
  std::erase_if(active_, [](const auto& operation) { return operation->over(); });
  others_.notify_all();
  if (!finished_.empty()) wake_server();
}

void Engine::check_clocks() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Operation& operation = *active_[i];
    if (operation.over()) continue;
    const Operation& urgent = operation.urgent();
    if (now >= urgent.deadline) {
      Group& group = *operation.group;
      const auto waited = std::chrono::duration<double>(now - urgent.started).count();
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, waited < 100 ? "%.3g" : "%.0f", waited);
      // The others may be told of it in operations of another name.
      const std::string it = &urgent == &operation ? "it" : urgent.description();
      std::string reason = "reached its timeout of " + std::string(seconds) + " s on ";
      reason.append(group.name_of(group.rank)).append(": ").append(it).append(" waits for ");
      const char* separator = "";
      for (const int rank : absent(urgent)) {
        reason.append(separator).append(group.name_of(rank));
        separator = ", ";
      }
      fail_group(group, {ErrorKind::timeout, reason});
    } else if (operation.probes && now - operation.probed >= kProbeAfter) {
      operation.probed = now;
      probe(operation);
    }
  }
}

Clock::time_point Engine::next_clock() const {
  auto next = Clock::now() + kLongestPark;
  for (const auto& operation : active_) {
    next = std::min({next, operation->urgent().deadline, operation->wake});
    if (operation->probes) next = std::min(next, operation->probed + kProbeAfter);
  }
  return next;
}

}  // namespace paceline
