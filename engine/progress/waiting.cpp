#include "progress/waiting.hpp"

#include <pthread.h>
#include <sched.h>

#include <bit>
#include <utility>

#include "calibration/waiting.hpp"
#include "progress/time_slice.hpp"

namespace paceline {

// While a caller waits, it is the one that moves operations on, and peers need not wake anybody.
class Waiting::Foreground {
 public:
  explicit Foreground(Waiting& waiting) : waiting_(waiting) { enter(); }
  ~Foreground() {
    waiting_.callers_.leave();
    Sleepers& sleepers = waiting_.sleepers_;
    if (waiting_.callers_.count() > 0) {
      sleepers.wake_callers();
      sleepers.wake_listener();  // no peer rings for it, because this caller was awake
    } else if (!waiting_.operations_.patient()) {
      sleepers.wake_server();
    } else if (!waiting_.operations_.empty()) {
      waiting_.parking_.leave_patient();
    }
  }
  Foreground(const Foreground&) = delete;
  Foreground& operator=(const Foreground&) = delete;

  // The caller waits for something else meanwhile, perhaps for long. Mostly it does not, so a server that stands aside
  // is not woken: it looks by itself whether callers are left.
  template <typename Call>
  auto aside(Sleepers::Lock& lock, Call&& call) {
    waiting_.callers_.leave();
    if (waiting_.callers_.count() == 0) waiting_.sleepers_.wake_listener();
    lock.unlock();
    const auto result = call();
    waiting_.contention_.retake(lock);  // a server that spins must see that this caller is back
    enter();
    return result;
  }

 private:
  void enter() {
    waiting_.callers_.enter();
    if (waiting_.sleepers_.parked() != Parked::no) waiting_.sleepers_.set_parked(Parked::no);
  }

  Waiting& waiting_;
};

Waiting::Waiting(EngineLock& contention, Sleepers& sleepers, Parking& parking, Loop& loop, ActiveOperations& operations,
                 Guests& guests, Failures& failures, std::chrono::nanoseconds spin, const std::string& description,
                 std::function<bool()> interrupted, int preferred_cpu)
    : contention_(contention),
      sleepers_(sleepers),
      parking_(parking),
      loop_(loop),
      operations_(operations),
      guests_(guests),
      failures_(failures),
      description_(description),
      interrupted_(std::move(interrupted)),
      caller_budget_{.spin = spin, .yield = calibration::kYield, .longest = calibration::kLongestYield},
      bulk_budget_{.spin = spin, .yield = calibration::kYield},
      server_budget_{.yield = calibration::kYield},
      placement_(preferred_cpu) {}

bool Waiting::finish_quickly(Operation& operation) {
  Backoff backoff(caller_budget_);
  const bool linked = operation.needs_links();
  if (linked && sleepers_.parked() != Parked::no) sleepers_.set_parked(Parked::no);
  while (!operation.complete()) {
    const bool arrived = linked && loop_.poll_links();
    if (operation.step() || arrived) {
      backoff.reset();
      continue;
    }
    if (operation.trouble() || operation.group->error || contention_.is_contended()) return false;
    const auto crowded = [&] {
      placement_.note(operation);
      return operation.neighbour() >= 0;
    };
    switch (backoff.next(crowded)) {
      case Backoff::Next::spin: relax_cpu(); break;
      case Backoff::Next::yield:
        ::sched_yield();
        backoff.yielded();
        break;
      case Backoff::Next::park: return false;
    }
  }
  if (operation.read_remotely()) loop_.poll_links();  // a peer that gave up has said so by now
  if (operation.group->error) {
    operation.fail(operation.group->error);
    operation.group->raised = true;
  } else {
    operation.finish();
  }
  operations_.close_event(operation);
  return true;
}

void Waiting::wait(Sleepers::Lock& lock, Operation& operation) {
  if (operation.over()) {
    operations_.retire();
    return;
  }
  Foreground foreground(*this);
  operation.waiter = std::bit_cast<std::uintptr_t>(::pthread_self());
  const bool small = operation.what.count * size_of(operation.what.dtype) <= kOneShotBytes;
  Backoff backoff(small ? caller_budget_ : bulk_budget_);
  CpuMeter meter(guests_.cpu_ns());
  auto asked = Clock::now();
  unsigned looks = 0;
  while (!operation.over()) {
    // A caller's own waiting is not coordination, but waiting that a policy wants is.
    if (!guests_.empty()) {
      const Rest wanted = operations_.rest();
      meter.turn_to(wanted == Rest::spin || wanted == Rest::yield ? CpuMeter::Work::coordination
                                                                  : CpuMeter::Work::other);
    }
    bool slept = false;
    if (loop_.pass(meter)) {
      backoff.reset();
      if (contention_.is_contended()) contention_.offer(lock);
    } else if (!operation.over()) {
      if (small) placement_.note(operation);
      slept = pause(lock, backoff, meter);
    }
    // A caller that finds something to do all the time, or that spins because a policy wants it, has to hear of
    // signals, too.
    if (!interrupted_ || !(slept || ++looks % calibration::kPassesPerClock == 0)) continue;
    const auto now = Clock::now();
    if (!(slept && sleepers_.take_signal()) && now - asked < calibration::kAskAfter) continue;
    asked = now;
    if (!operation.over()) check_interrupt(lock, foreground, operation);
  }
}

void Waiting::check_interrupt(Sleepers::Lock& lock, Foreground& foreground, Operation& operation) {
  const bool interrupted = foreground.aside(lock, interrupted_);
  if (!interrupted || operation.over()) return;
  Group& group = *operation.group;
  failures_.fail(group, {ErrorKind::aborted, group.name_of(group.rank) + " was interrupted", description_});
  operations_.retire();
}

void Waiting::serve(Sleepers::Lock& lock, const bool& closed) {
  static thread_local const bool asked = (ask_for_short_slices(), true);  // each thread asks once; granted or not
  (void)asked;
  Backoff backoff(server_budget_);
  CpuMeter meter(guests_.cpu_ns());
  while (!closed) {
    const bool coordinates = !guests_.empty() && !moves_data();
    meter.turn_to(coordinates ? CpuMeter::Work::coordination : CpuMeter::Work::other);
    if (callers_.count() > 0) {
      sleepers_.step_aside(lock);
    } else if (operations_.empty()) {
      parking_.park(lock, meter, true);
      backoff.reset();
    } else if (loop_.pass(meter)) {
      backoff.reset();
      if (contention_.is_contended()) contention_.offer(lock);
    } else if (coordinates && operations_.rest() == Rest::adaptive) {
      parking_.park(lock, meter, true);  // no caller waits, and a rank that has news rings
    } else if (!operations_.empty()) {
      pause(lock, backoff, meter);
    }
  }
}

bool Waiting::pause(Sleepers::Lock& lock, Backoff& backoff, CpuMeter& meter) {
  const Rest wanted = operations_.rest();
  const auto next = wanted == Rest::adaptive ? backoff.next([] { return false; })
                    : wanted == Rest::sleep  ? Backoff::Next::park
                    : wanted == Rest::yield  ? Backoff::Next::yield
                                             : Backoff::Next::spin;
  switch (next) {
    case Backoff::Next::spin:
      relax_cpu();
      if (!contention_.is_contended()) return false;
      [[fallthrough]];
    case Backoff::Next::yield: {
      const auto now = contention_.offer(lock);
      backoff.yielded(now);  // under the lock, because all callers share the budget
      return false;
    }
    case Backoff::Next::park:
      parking_.park(lock, meter, callers_.count() == 0);
      backoff.slept();
      return true;
  }
  return false;
}

bool Waiting::moves_data() const {
  return guests_.carry_data() ||
         operations_.any([](const Operation& operation) { return operation.group->use == Group::Use::callers; });
}

}  // namespace paceline
