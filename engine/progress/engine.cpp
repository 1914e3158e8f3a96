#include "progress/engine.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

#include "failure/fork.hpp"
#include "link/shm.hpp"
#include "link/tcp.hpp"

namespace paceline {
namespace {

constexpr std::size_t kWorkspace = std::size_t{1} << 20;

Descriptor checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return Descriptor(fd);
}

}  // namespace

Engine::Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
               std::function<bool()> interrupted)
    : arena_(std::move(arena)),
      description_(std::move(description)),
      interrupted_(std::move(interrupted)),
      caller_budget_{spin, std::chrono::microseconds(50)},
      server_budget_{std::chrono::nanoseconds(0), std::chrono::microseconds(50)},
      workspace_(kWorkspace),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      alarm_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")) {
  for (const auto& [fd, token] : {std::pair{wake_.get(), kWakeToken}, std::pair{alarm_.get(), kAlarmToken}}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = token;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  track_for_fork(this);
}

Engine::~Engine() {
  close();
  untrack_for_fork(this);
}

int Engine::add_peer(std::unique_ptr<Link> link, std::string description) {
  auto peer = std::make_unique<Peer>();
  peer->description = std::move(description);
  peer->interest = EPOLLIN | EPOLLRDHUP;
  epoll_event event{};
  event.events = peer->interest;
  event.data.u64 = static_cast<std::uint64_t>(link->peer());
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link->descriptor(), &event) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen to " + peer->description);
  (link->name() == "shm" ? shm_links_ : tcp_links_).push_back(link.get());
  peer->link = std::move(link);
  peers_.push_back(std::move(peer));
  return static_cast<int>(peers_.size()) - 1;
}

int Engine::add_tcp_peer(Descriptor socket, std::string description) {
  auto lock = enter();
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  const int handle = static_cast<int>(peers_.size());
  return add_peer(std::make_unique<TcpLink>(handle, std::move(socket), std::span(workspace_)), std::move(description));
}

int Engine::add_shm_peer(ShmPeer reach, std::string description) {
  auto lock = enter();
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  const int handle = static_cast<int>(peers_.size());
  return add_peer(std::make_unique<ShmLink>(handle, std::move(reach), *arena_), std::move(description));
}

std::shared_ptr<Group> Engine::add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                         std::chrono::duration<double> timeout,
                                         std::map<std::string, std::vector<Plan>, std::less<>> plans) {
  const auto lock = enter();
  return make_group(channel, rank, peers, timeout, std::move(plans));
}

std::shared_ptr<Group> Engine::make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                          std::chrono::duration<double> timeout,
                                          std::map<std::string, std::vector<Plan>, std::less<>> plans) {
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  if (groups_.contains(channel)) throw Failure(ErrorKind::invalid, "this channel is already in use");
  auto group = std::make_shared<Group>();
  group->channel = channel;
  group->rank = rank;
  group->timeout = timeout;
  adopt(*group, std::move(plans));
  bool any_shm = false;
  bool any_tcp = false;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Member member;
    if (static_cast<int>(i) == rank) {
      member.description = description_;
    } else {
      if (peers[i] < 0 || peers[i] >= static_cast<int>(peers_.size()))
        throw Failure(ErrorKind::invalid, "no link to rank " + std::to_string(i));
      const Peer& peer = *peers_[static_cast<std::size_t>(peers[i])];
      member = {peers[i], peer.link.get(), peer.description};
      (peer.link->name() == "shm" ? any_shm : any_tcp) = true;
    }
    group->members.push_back(std::move(member));
  }
  group->link_name = any_shm && any_tcp ? "mixed" : any_tcp ? "tcp" : any_shm ? "shm" : "self";
  if (any_shm && !any_tcp) share_lane(*group);
  groups_[channel] = group;
  // What has come for this group before it was made here.
  std::vector<std::unique_ptr<Arrival>> waiting;
  std::swap(waiting, orphans_);
  for (auto& arrival : waiting) deliver(std::move(arrival));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (static_cast<int>(i) == rank) continue;
    const Peer& peer = *peers_[static_cast<std::size_t>(peers[i])];
    if (peer.lost && !peer.left) fail_group(*group, {ErrorKind::peer_lost, gone(*group, static_cast<int>(i), "")});
  }
  return group;
}

void Engine::adopt(Group& group, std::map<std::string, std::vector<Plan>, std::less<>> plans) {
  group.plans = std::move(plans);
  for (auto& [collective, list] : group.plans)
    for (Plan& plan : list) plan.algorithm = events_.keep(plan.name);
}

void Engine::set_plans(Group& group, std::map<std::string, std::vector<Plan>, std::less<>> plans) {
  auto lock = enter();
  adopt(group, std::move(plans));
}

// The others may hear of it before they make the group themselves; no turn begins before all have heard from all.
void Engine::share_lane(Group& group) {
  std::erase_if(forsaking_, [](const auto& lane) { return lane->forsaken(); });
  group.lane = std::make_unique<Lane>(*arena_, group.rank, group.size());
  Header hello;
  hello.frame = Frame::hello;
  hello.channel = group.channel;
  hello.id = group.lane->offset();
  for (const Member& member : group.members)
    if (member.link != nullptr && !peers_[static_cast<std::size_t>(member.peer)]->lost) member.link->control(hello);
}

void Engine::remove_group(Group& group) {
  const auto lock = enter();
  drop_group(group);
}

void Engine::drop_group(Group& group) {
  if (!groups_.contains(group.channel)) return;
  for (const auto& operation : active_)
    if (operation->group == &group) operation->fail({ErrorKind::aborted, "its group was closed"});
  retire();
  if (!group.error) group.error = {ErrorKind::aborted, "the group is closed"};
  group.matcher.clear();
  if (group.lane != nullptr) {
    group.lane->depart();
    forsaking_.push_back(std::move(group.lane));
  }
  closed_channels_.insert(group.channel);
  const auto dropped = groups_.extract(group.channel);
  if (group.pace != 0) pace_links(group);
}

std::unique_lock<std::mutex> Engine::enter() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    ++contenders_;
    lock.lock();
    --contenders_;
  }
  return lock;
}

void Engine::check_open(const Group& group, const Fingerprint& what) const {
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  if (group.error)
    throw Failure(group.error.kind, describe(what, group.sequence()) + " cannot start: " + group.error.message);
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
    exposed_ += std::chrono::nanoseconds(std::max<std::int64_t>(0, event.ended_ns - event.enqueued_ns));
    if (op.state() == Operation::State::failed) throw Failure(op.error());
    return nullptr;
  }
  op.started = op.probed = Clock::now();
  op.deadline = op.started + std::chrono::duration_cast<Clock::duration>(group.timeout);
  active_.push_back(operation);
  if (auto wrong = is_point_to_point(op.what.collective) ? std::string{} : group.disagreement_about(op.sequence);
      !wrong.empty()) {
    fail_group(group, {ErrorKind::mismatch, wrong});
  }
  if (absent_peers_) fail_with_absent_peers(op);
  if (mode == Mode::blocking) {
    wait_locked(lock, op);
    if (op.state() == Operation::State::failed) throw Failure(op.error());
    return nullptr;
  }
  if (mode != Mode::inside && foreground_ == 0) {
    // The serving thread sleeps: let peers wake it, or do so if there is something to do already.
    if (listening_ && !parked_flags_) set_parked(true);
    const bool moved = poll_links();
    leave_to_server(moved || op.has_work() || op.trouble() || op.over());
  }
  return operation;
}

void Engine::leave_to_server(bool now) {
  if (now || !listening_) {
    wake_server();
  } else if (idle_listener_) {
    set_interest(true, true);
    set_alarm(next_clock());
  }
}

// The way of most calls on one machine: nothing else is under way, and the others are about to arrive. False if it
// takes longer, or goes wrong.
bool Engine::finish_quickly(Operation& operation) {
  Backoff backoff(caller_budget_);
  while (!operation.complete()) {
    if (operation.step()) {
      backoff.reset();
      continue;
    }
    if (operation.trouble() || contenders_.load(std::memory_order_relaxed) > 0) return false;
    const auto crowded = [&] {
      const int neighbour = operation.neighbour();
      // One of the two moves; where ranks outnumber CPUs, nobody is better off elsewhere.
      if (caller_budget_.spin.count() > 0) placement_.note(neighbour >= 0 && neighbour < operation.group->rank);
      return neighbour >= 0;
    };
    switch (backoff.next(crowded)) {
      case Backoff::Next::spin: relax_cpu(); break;
      case Backoff::Next::yield: ::sched_yield(); break;
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
    operation.deadline =
        std::min(operation.deadline, Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout));
  }
  if (!operation.over()) operation.awaited();
  wait_locked(lock, operation);
  if (operation.state() == Operation::State::failed) throw Failure(operation.error());
}

bool Engine::is_over(Operation& operation) {
  auto lock = enter();
  return operation.over();
}

void Engine::abort(Group& group, const std::string& reason) {
  auto lock = enter();
  if (closed_) return;
  fail_group(group, {ErrorKind::aborted, group.name_of(group.rank) + " aborted: " + reason});
  retire();
}

void Engine::set_pace(Group& group, double bytes_per_second) {
  auto lock = enter();
  group.pace = std::isfinite(bytes_per_second) ? bytes_per_second : 0;
  pace_links(group);
}

// Groups may go over the same link, and which of them does so next is not known.
void Engine::pace_links(const Group& of) {
  for (const Member& member : of.members) {
    if (member.link == nullptr) continue;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const auto& [channel, group] : groups_) {
      if (group->pace == 0 || group->rank_of(member.peer) < 0) continue;
      least = std::min(least, group->pace);
      most = std::max(most, group->pace);
    }
    member.link->set_pace(least, most);
  }
}

void Engine::set_timeout(Group& group, std::chrono::duration<double> timeout) {
  auto lock = enter();
  group.timeout = timeout;
}

std::vector<Event> Engine::events(std::uint64_t after) {
  auto lock = enter();
  return events_.snapshot(after, last_id_);
}

void Engine::settle_exposed() {
  const auto now = Clock::now();
  exposed_ += foreground_ * (now - exposed_until_);
  exposed_until_ = now;
}

std::chrono::nanoseconds Engine::exposed() {
  auto lock = enter();
  settle_exposed();
  return exposed_;
}

void Engine::close() {
  auto lock = enter();
  if (closed_) return;
  for (const auto& operation : active_) operation->fail({ErrorKind::aborted, "the engine was closed"});
  retire();
  closed_ = true;
  Header goodbye;
  goodbye.frame = Frame::goodbye;
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->control(goodbye);
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  for (auto& peer : peers_)
    while (!peer->lost && !peer->link->flush() && Clock::now() < deadline) std::this_thread::yield();
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->hang_up();
  for (auto& [channel, group] : groups_) {
    if (!group->error) group->error = {ErrorKind::aborted, "the engine is closed"};
    group->matcher.clear();
    if (group->lane != nullptr) group->lane->depart();
    group->lane.reset();
  }
  forsaking_.clear();
  groups_.clear();
  shm_links_.clear();
  tcp_links_.clear();
  peers_.clear();
  orphans_.clear();
  finished_.clear();
  wake_server();
}

void Engine::forget_after_fork() {
  for (auto& peer : peers_) peer->link->forget_after_fork();
  epoll_.reset();
  wake_.reset();
  alarm_.reset();
}

}  // namespace paceline
