#include "progress/engine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "link/tcp.hpp"
#include "progress/fork.hpp"
#include "progress/times.hpp"

namespace paceline {
namespace {

constexpr std::size_t kWorkspace = std::size_t{1} << 20;  // bytes of scratch memory that all links and operations share

LargeCalls& large_of(const Group& group) {
  if (group.large_calls == nullptr)
    throw Failure(ErrorKind::invalid, "this group does not count its large collectives");
  return *group.large_calls;
}

Failure failure_of(const Operation& operation) {
  return Failure(operation.error(), operation.description(), operation.tensor());
}

}  // namespace

Engine::Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
               std::function<bool()> interrupted, int preferred_cpu)
    : arena_(std::move(arena)),
      description_(std::move(description)),
      workspace_(kWorkspace),
      waiting_(lock_, sleepers_, parking_, loop_, operations_, guests_, failures_, spin, description_,
               std::move(interrupted), preferred_cpu) {
  track_for_fork(this);
}

Engine::~Engine() {
  end();
  untrack_for_fork(this);
}

void Engine::refuse_child() const {
  throw Failure(ErrorKind::refused, "this process was forked from process " + std::to_string(origin_.pid()) +
                                        ", whose Paceline links it cannot use: communicate in the parent, or start "
                                        "workers with the spawn method");
}

Sleepers::Lock Engine::enter() {
  if (inherited()) refuse_child();
  return take_over();
}

Sleepers::Lock Engine::take_over() {
  auto lock = lock_.take();
  // What the caller changes may leave an operation with acknowledgements alone to wait for, and peers do not ring for
  // these yet.
  if (sleepers_.parked() == Parked::for_news) {
    const PlainFloats floats;
    sleepers_.set_parked(Parked::for_everything);
    loop_.poll_links();
  }
  return lock;
}

void Engine::check_open() const {
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
}

void Engine::check_open(Group& group, const Fingerprint& what) const {
  check_open();
  if (!group.error) return;
  group.raised = true;
  const std::string asked = describe(what, group.sequence());
  throw Failure({group.error.kind, asked + " cannot start: " + group.error.message, group.error.culprit}, asked);
}

int Engine::add_tcp_peer(Descriptor socket, std::string description) {
  const auto lock = enter();
  check_open();
  const int handle = peers_.next_handle();
  return sockets_.add(std::make_unique<TcpLink>(handle, std::move(socket), std::span(workspace_)),
                      std::move(description));
}

int Engine::add_shm_peer(ShmPeer reach, std::string description) {
  const auto lock = enter();
  check_open();
  const int handle = peers_.next_handle();
  return sockets_.add(std::make_unique<ShmLink>(handle, std::move(reach), *arena_), std::move(description));
}

std::shared_ptr<Group> Engine::add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                         std::chrono::duration<double> timeout, Plans plans) {
  const auto lock = enter();
  const Leaving leaving(*this);
  return make_group(channel, rank, peers, timeout, std::move(plans));
}

std::shared_ptr<Group> Engine::make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                          std::chrono::duration<double> timeout, Plans plans) {
  check_open();
  auto group = groups_.make(channel, rank, peers, timeout, std::move(plans));
  delivery_.deliver_early();
  failures_.fail_if_dead(*group);
  return group;
}

void Engine::remove_group(Group& group) {
  if (inherited()) return;
  auto lock = enter();
  const Leaving leaving(*this);
  const auto open = groups_.find(group.channel);
  if (open != nullptr) leave_groups({open});
  const Error unraised = open != nullptr ? farewell_.part(lock, {open}) : Error();
  groups_.drop(group);
  failures_.forget(group);
  if (unraised) throw Failure(unraised);
}

// What peers have done by now counts as done.
void Engine::leave_groups(const std::vector<std::shared_ptr<Group>>& groups) {
  if (operations_.empty()) return;
  sockets_.poll();
  loop_.poll_links();
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (const auto operation = operations_[i]; !operation->over()) loop_.step(*operation);
  operations_.retire();
  for (const auto& group : groups) failures_.leave(*group);
  operations_.retire();
}

void Engine::set_plans(Group& group, Plans plans) {
  const auto lock = enter();
  groups_.set_plans(group, std::move(plans));
}

void Engine::set_pace(Group& group, double inbound, std::vector<double> outbound) {
  if (outbound.size() != group.members.size())
    throw Failure(ErrorKind::invalid, "the link to every rank needs a rate: " + std::to_string(group.size()) +
                                          " ranks, " + std::to_string(outbound.size()) + " rates");
  const auto lock = enter();
  groups_.set_pace(group, inbound, std::move(outbound));
}

void Engine::set_machines(Group& group, std::vector<int> machines) {
  if (machines.size() != group.members.size())
    throw Failure(ErrorKind::invalid, "every rank needs the number of its machine: " + std::to_string(group.size()) +
                                          " ranks, " + std::to_string(machines.size()) + " numbers");
  const auto lock = enter();
  group.machines = std::move(machines);
}

void Engine::set_codec(Group& group, Codec codec, std::size_t from) {
  const auto lock = enter();
  group.codec = codec;
  group.coded_from = from;
}

Error Engine::fate(int peer) {
  const auto lock = enter();
  return peers_.has(peer) ? failures_.fate(peer) : Error{};
}

std::uint64_t Engine::received(const Group& group, int rank) {
  const auto lock = enter();
  const Member& member = group.members.at(static_cast<std::size_t>(rank));
  return member.link == nullptr ? 0 : member.link->received();
}

void Engine::set_timeout(Group& group, std::chrono::duration<double> timeout) {
  const auto lock = enter();
  group.timeout = timeout;
}

void Engine::count_large(Group& group, std::uint64_t stop) {
  const auto lock = enter();
  group.large_calls = std::make_unique<LargeCalls>(stop);
}

LargeCalls::Snapshot Engine::large_calls(const Group& group, std::uint64_t first) {
  const auto lock = enter();
  const LargeCalls& calls = large_of(group);
  return {calls.count(), calls.most_under_way(), calls.since(first)};
}

// A coordinator may hold a batch because of the last stop.
void Engine::stop_before(Group& group, std::uint64_t number) {
  const auto lock = enter();
  large_of(group).stop_before(number);
  sleepers_.wake_server();
}

void Engine::finish_large(const Group& group) {
  const PlainFloats floats;
  auto lock = enter();
  const auto is_large = [&](const auto& operation) {
    return operation->group == &group && operation->large >= 0 && !operation->over();
  };
  std::vector<std::shared_ptr<Operation>> large;
  std::ranges::copy_if(operations_, std::back_inserter(large), is_large);
  for (const auto& operation : large) waiting_.wait(lock, *operation);
}

std::shared_ptr<Operation> Engine::launch(Sleepers::Lock& lock, Group& group, std::shared_ptr<Operation> operation,
                                          std::size_t bytes, Mode mode) {
  const Leaving leaving(*this);
  Operation& op = *operation;
  const Event& event = operations_.open_event(group, op, bytes);
  const bool alone = operations_.empty() && mode == Mode::blocking && !peers_.any_lost();
  op.start(group, workspace_);
  if (is_point_to_point(op.what.collective) && op.complete()) {
    op.finish();
    operations_.close_event(op);
    if (op.notify) notifications_.report(op.id);
    return mode == Mode::blocking || (mode == Mode::async && op.what.collective == Collective::send) ? nullptr
                                                                                                     : operation;
  }
  if (alone && !op.needs_network() && waiting_.finish_quickly(op)) {
    waiting_.callers().add(std::chrono::nanoseconds(std::max<std::int64_t>(0, event.ended_ns - event.enqueued_ns)));
    if (op.state() == Operation::State::failed) throw failure_of(op);
    return nullptr;
  }
  op.started = op.probed = Clock::now();
  op.deadline = op.started + on_clock(group.timeout);
  operations_.add(operation);
  auto wrong = is_point_to_point(op.what.collective) ? std::string{} : group.disagreement_about(op.sequence);
  if (!wrong.empty()) {
    failures_.fail(group, {ErrorKind::mismatch, wrong});
  } else if (const auto refused = group.refused_elsewhere()) {
    failures_.fail(group, refused);
  }
  if (group.error && !op.over()) {
    op.group_failed(group.error);
    group.raised = true;
  }
  if (failures_.may_lack(group)) failures_.fail_if_absent(op);
  if (mode == Mode::blocking) {
    waiting_.wait(lock, op);
    if (op.state() == Operation::State::failed) throw failure_of(op);
    return nullptr;
  }
  if (mode != Mode::inside && waiting_.is_idle() && operations_.patient()) {
    parking_.leave_patient();
  } else if (mode != Mode::inside && waiting_.is_idle()) {
    // The thread that moves operations on sleeps. Let peers wake it, or wake it now if there is something to do.
    sleepers_.let_peers_wake();
    const bool moved = loop_.poll_links();
    parking_.leave_to_server(moved || op.has_work() || op.trouble() || op.over());
  }
  return operation;
}

// The caller goes its own way. Peers may sleep, and so may the server: one of them does the rest.
void Engine::step_now(Operation& operation) {
  const PlainFloats floats;
  sleepers_.let_peers_wake();
  loop_.step(operation);
  if (operation.over()) operations_.retire();
  if (sleepers_.listening()) sleepers_.wakeups().set_alarm(operation.wake);
  parking_.leave_to_server(operation.has_work() || operation.trouble());
  leave_queues();
}

void Engine::drop_group(Group& group) {
  groups_.drop(group);
  failures_.forget(group);
  leave_queues();
}

void Engine::fail_group(Group& group, const Error& error) {
  failures_.fail(group, error);
  leave_queues();
}

void Engine::wait(Operation& operation, std::chrono::duration<double> timeout) {
  auto lock = enter();
  const Leaving leaving(*this);
  if (timeout.count() >= 0) {
    operation.deadline = std::min(operation.deadline, Clock::now() + on_clock(timeout));
  }
  if (!operation.over()) operation.awaited();
  waiting_.wait(lock, operation);
  if (operation.state() == Operation::State::failed) throw failure_of(operation);
}

bool Engine::is_over(Operation& operation) {
  const auto lock = enter();
  const Leaving leaving(*this);
  if (!operation.over() && operation.patient()) {
    loop_.poll_links();
    if (!operation.over()) loop_.step(operation);
    operations_.retire();
  }
  return operation.over();
}

bool Engine::notify(Operation& operation) {
  const auto lock = enter();
  const Leaving leaving(*this);
  if (operation.over()) return false;
  operation.notify = true;
  // It is patient no more.
  sleepers_.let_peers_wake();
  const bool moved = loop_.poll_links();
  parking_.leave_to_server(moved || operation.has_work());
  return true;
}

void Engine::serve() {
  const PlainFloats floats;
  auto lock = enter();
  waiting_.serve(lock, closed_);
}

std::vector<std::uint64_t> Engine::notifications() {
  auto lock = enter();
  return notifications_.next(lock);
}

// It has a number as if it had begun, and so the next call is the next one on all ranks, also where this one raised on
// all of them.
void Engine::refuse(Group& group, Collective collective, const std::string& reason) {
  if (inherited()) return;
  const auto lock = enter();
  const Leaving leaving(*this);
  if (closed_ || group.error || groups_.find(group.channel) == nullptr) return;
  failures_.refuse_call(group, std::string(kCollectiveNames[static_cast<std::size_t>(collective)]), reason);
  operations_.retire();
}

void Engine::abort(Group& group, const std::string& reason) {
  const auto lock = enter();
  const Leaving leaving(*this);
  if (closed_) return;
  failures_.fail(group, {ErrorKind::aborted, group.name_of(group.rank) + " aborted: " + reason, description_});
  operations_.retire();
}

std::size_t Engine::removed_early() {
  const auto lock = enter();
  read_if_idle();
  loop_.poll_links();
  return groups_.closing();
}

void Engine::close() {
  if (const Error unraised = end()) throw Failure(unraised);
}

Error Engine::end() {
  if (inherited()) return {};
  auto lock = take_over();
  if (closed_) return {};
  leave_groups(groups_.all());
  Error unraised = farewell_.part(lock, groups_.all());
  if (closed_) return unraised;
  guests_.send_away();
  operations_.fail_all({ErrorKind::aborted, "the engine was closed"});
  closed_ = true;
  farewell_.say_goodbye();
  groups_.clear();
  peers_.clear();
  delivery_.forget_early();
  notifications_.end();
  sleepers_.wake_server();
  return unraised;
}

std::vector<Event> Engine::events(std::uint64_t after) {
  const auto lock = enter();
  return operations_.events(after);
}

std::vector<MethodTuner::Size> Engine::methods(const Group& group) {
  const auto lock = enter();
  return group.method_tuner.sizes();
}

std::chrono::nanoseconds Engine::exposed() {
  const auto lock = enter();
  return waiting_.callers().exposed();
}

std::vector<Wait> Engine::waits() {
  const auto lock = enter();
  return waits_.list();
}

void Engine::annotate(std::uint64_t operation, std::string words) {
  const auto lock = enter();
  waits_.annotate(operation, std::move(words));
}

void Engine::tell_line(std::string_view line) {
  const auto lock = enter();
  const Leaving leaving(*this);
  if (operations_.empty()) whereabouts_.tell_line(line, operations_.last_id());
}

std::uint64_t Engine::ask(std::string_view words) {
  const auto lock = enter();
  const Leaving leaving(*this);
  return questions_.ask(words);
}

std::vector<Answer> Engine::answers() {
  const auto lock = enter();
  read_if_idle();
  return questions_.answers();
}

std::vector<Question> Engine::questions() {
  const auto lock = enter();
  read_if_idle();
  return questions_.take();
}

void Engine::answer(const Question& question, std::string_view content) {
  const auto lock = enter();
  const Leaving leaving(*this);
  questions_.answer(question, content);
}

std::vector<std::pair<std::string, ClockBounds>> Engine::clocks() {
  const auto lock = enter();
  std::vector<std::pair<std::string, ClockBounds>> found;
  for (const Link* link : peers_.tcp_links())
    if (const auto bounds = link->clock()) found.emplace_back(peers_[link->peer()].description, *bounds);
  return found;
}

bool Engine::flush(int peer) {
  const auto lock = enter();
  return !peers_.has(peer) || peers_[peer].lost || peers_[peer].link->flush();
}

void Engine::read_if_idle() {
  if (operations_.empty()) sockets_.poll();
}

void Engine::after_fork_in_child() {
  for (auto& peer : peers_) peer->link->forget_after_fork();
  sleepers_.forget_after_fork();
  notifications_.forget_after_fork();
  questions_.forget_after_fork();
  lock_.give_back();
}

}  // namespace paceline
