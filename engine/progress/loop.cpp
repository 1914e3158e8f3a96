// The one loop: take in what has arrived, move every operation on, and wait well when nothing moves.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "calibration/constants.hpp"
#include "progress/engine.hpp"
#include "progress/time_slice.hpp"

namespace paceline {
namespace {

// The server looks this often at whether callers still wait; the last of them also wakes it.
constexpr auto kStepAside = std::chrono::milliseconds(20);

}  // namespace

// While a caller waits, it is the one that moves things on, and peers need not wake anybody.
class Engine::Foreground {
 public:
  explicit Foreground(Engine& engine) : engine_(engine) {
    engine_.callers_.enter();
    if (engine_.parked_ != Parked::no) engine_.set_parked(Parked::no);
  }
  ~Foreground() {
    engine_.callers_.leave();
    if (engine_.callers_.count() > 0) {
      engine_.others_.notify_all();
      engine_.wake_listener();  // nobody rings for it: this caller was awake
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
  const bool small = operation.what.count * size_of(operation.what.dtype) <= kOneShotBytes;
  Backoff backoff(small ? caller_budget_ : bulk_budget_);
  CpuMeter meter(coordination_cpu_ns_);
  auto asked = Clock::now();
  while (!operation.over()) {
    // Its own waiting is a caller's own affair, but not that which a policy wants of it.
    if (!guests_.empty()) {
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
      continue;
    }
    if (operation.over()) break;
    if (small) placement_.note(operation);
    if (pause(lock, backoff, meter) && interrupted_) {
      const auto now = Clock::now();
      if (!std::exchange(signalled_, false) && now - asked < calibration::kAskAfter) continue;
      asked = now;
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
  fail_group(group, {ErrorKind::aborted, group.name_of(group.rank) + " was interrupted", description_});
  retire();
}

std::vector<std::uint64_t> Engine::serve() {
  static thread_local const bool asked = (ask_for_short_slices(), true);  // each thread once; granted or not
  (void)asked;
  auto lock = enter();
  Backoff backoff(server_budget_);
  CpuMeter meter(coordination_cpu_ns_);
  while (finished_.empty() && !closed_) {
    const bool coordinates = !guests_.empty() && !moves_data();
    meter.turn_to(coordinates ? CpuMeter::Work::coordination : CpuMeter::Work::other);
    if (callers_.count() > 0) {
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
    } else if (coordinates && rest() == Rest::adaptive) {
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
  const auto next = wanted == Rest::adaptive ? backoff.next([] { return false; })
                    : wanted == Rest::sleep  ? Backoff::Next::park
                    : wanted == Rest::yield  ? Backoff::Next::yield
                                             : Backoff::Next::spin;
  switch (next) {
    case Backoff::Next::spin:
      relax_cpu();
      if (contenders_.load(std::memory_order_relaxed) == 0) return false;
      [[fallthrough]];
    case Backoff::Next::yield: {
      lock.unlock();
      ::sched_yield();
      const auto now = Clock::now();
      lock.lock();
      backoff.yielded(now);  // the budget is that of all callers
      return false;
    }
    case Backoff::Next::park:
      park(lock, meter);
      backoff.slept();
      return true;
  }
  return false;
}

// What the most restless operation wants; the loop sleeps at once only if all operations want that.
Rest Engine::rest() const {
  if (active_.empty()) return Rest::adaptive;
  Rest found = Rest::sleep;
  for (const auto& operation : active_) {
    if (operation->rest == Rest::spin || found == Rest::spin) return Rest::spin;
    if (operation->rest == Rest::yield || found == Rest::sleep) found = operation->rest;
  }
  return found;
}

bool Engine::moves_data() const {
  return carrying_ > 0 || std::ranges::any_of(active_, [](const auto& operation) {
           return operation->group->use == Group::Use::callers;
         });
}

bool Engine::progress(CpuMeter& meter) {
  ++passes_;
  meter_ = &meter;
  // What moves on in shared memory alone hears of errors in time.
  const bool linked = std::ranges::any_of(active_, [](const auto& operation) { return operation->needs_links(); });
  const bool seldom = passes_ % calibration::kPassesPerSocketLook == 0;
  bool moved = (linked || seldom) && poll_links();
  if ((linked && !peers_.tcp_links().empty()) || seldom) poll_sockets();
  moved |= step_operations();
  if (passes_ % calibration::kPassesPerClock == 0) check_clocks();
  const auto before = active_.size();
  retire();
  meter_ = nullptr;
  return moved || active_.size() != before;
}

bool Engine::poll_links() {
  bool moved = false;
  for (Link* link : peers_.shm_links()) moved |= link->poll(*this);
  return moved;
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

}  // namespace paceline
