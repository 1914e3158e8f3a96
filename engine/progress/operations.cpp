// An operation from its start to its end, as its caller sees it.
#include <sched.h>

#include <algorithm>

#include "progress/engine.hpp"
#include "progress/times.hpp"

namespace paceline {
namespace {

Failure failure_of(const Operation& operation) {
  return Failure(operation.error(), operation.description(), operation.tensor());
}

}  // namespace

std::unique_lock<std::mutex> Engine::enter() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    ++contenders_;
    lock.lock();
    --contenders_;
  }
  // What is changed now may leave an operation with acknowledgements alone to wait for, and nobody rang for those.
  if (parked_ == Parked::for_news) {
    set_parked(Parked::for_everything);
    poll_links();
  }
  return lock;
}

void Engine::check_open(const Group& group, const Fingerprint& what) const {
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  if (!group.error) return;
  const std::string asked = describe(what, group.sequence());
  throw Failure({group.error.kind, asked + " cannot start: " + group.error.message, group.error.culprit}, asked);
}

void Engine::number(Group& group, Operation& operation, const Fingerprint& what, Mode mode) {
  operation.what = what;
  operation.id = ++last_id_;
  operation.notify = mode == Mode::notify;
  operation.sequence = is_point_to_point(what.collective) ? group.sequence() : group.begin(what);
}

std::shared_ptr<Operation> Engine::launch(std::unique_lock<std::mutex>& lock, Group& group,
                                          std::shared_ptr<Operation> operation, std::size_t bytes, Mode mode) {
  Operation& op = *operation;
  Event& event = events_.slot(op.id);
  event = {op.id,           group.channel, op.sequence, op.what, EventState::running, bytes, op.algorithm,
           group.link_name, realtime_ns(), 0,           0};
  event.started_ns = event.enqueued_ns;
  const bool alone = active_.empty() && mode == Mode::blocking && !absent_peers_;
  op.start(group, workspace_);
  if (alone && !op.needs_links() && finish_quickly(op)) {
    callers_.add(std::chrono::nanoseconds(std::max<std::int64_t>(0, event.ended_ns - event.enqueued_ns)));
    if (op.state() == Operation::State::failed) throw failure_of(op);
    return nullptr;
  }
  op.started = op.probed = Clock::now();
  op.deadline = op.started + on_clock(group.timeout);
  active_.push_back(operation);
  if (auto wrong = is_point_to_point(op.what.collective) ? std::string{} : group.disagreement_about(op.sequence);
      !wrong.empty()) {
    fail_group(group, {ErrorKind::mismatch, wrong});
  }
  if (absent_peers_) fail_with_absent_peers(op);
  if (mode == Mode::blocking) {
    wait_locked(lock, op);
    if (op.state() == Operation::State::failed) throw failure_of(op);
    return nullptr;
  }
  if (mode != Mode::inside && (callers_.count() == 0 || listening_)) {
    // Whoever moves things on sleeps: let peers wake it, or do so if there is something to do already.
    if (listening_ && parked_ == Parked::no) set_parked(Parked::for_everything);
    const bool moved = poll_links();
    leave_to_server(moved || op.has_work() || op.trouble() || op.over());
  }
  return operation;
}

// Finishes an operation as most calls on one machine go: nothing else is under way, and the other ranks are about to
// arrive. Returns false if it takes longer, or goes wrong.
bool Engine::finish_quickly(Operation& operation) {
  Backoff backoff(caller_budget_);
  while (!operation.complete()) {
    if (operation.step()) {
      backoff.reset();
      continue;
    }
    if (operation.trouble() || contenders_.load(std::memory_order_relaxed) > 0) return false;
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
  if (operation.read_remotely()) poll_links();  // a peer that gave up has said so by now
  if (operation.group->error) {
    operation.fail(operation.group->error);
  } else {
    operation.finish();
  }
  close_event(operation);
  return true;
}

void Engine::close_event(const Operation& operation) {
  Event& event = events_.slot(operation.id);
  if (event.id != operation.id) return;
  event.ended_ns = realtime_ns();
  event.algorithm = operation.algorithm;
  event.state = operation.state() == Operation::State::done ? EventState::done : EventState::failed;
}

void Engine::wait(Operation& operation, std::chrono::duration<double> timeout) {
  auto lock = enter();
  if (timeout.count() >= 0) {
    operation.deadline = std::min(operation.deadline, Clock::now() + on_clock(timeout));
  }
  if (!operation.over()) operation.awaited();
  wait_locked(lock, operation);
  if (operation.state() == Operation::State::failed) throw failure_of(operation);
}

bool Engine::is_over(Operation& operation) {
  auto lock = enter();
  return operation.over();
}

}  // namespace paceline
