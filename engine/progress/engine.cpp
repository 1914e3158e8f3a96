#include "progress/engine.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <system_error>
#include <thread>

#include "link/shm.hpp"
#include "link/tcp.hpp"
#include "progress/fork.hpp"

namespace paceline {
namespace {

constexpr std::size_t kWorkspace = std::size_t{1} << 20;
constexpr std::chrono::microseconds kYield{50};
constexpr std::chrono::microseconds kLongestYield{150};

Descriptor checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return Descriptor(fd);
}

}  // namespace

Engine::Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
               std::function<bool()> interrupted, int home)
    : arena_(std::move(arena)),
      description_(std::move(description)),
      interrupted_(std::move(interrupted)),
      caller_budget_{.spin = spin, .yield = kYield, .longest = kLongestYield},
      bulk_budget_{.spin = spin, .yield = kYield},
      server_budget_{.yield = kYield},
      placement_(home),
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

std::vector<Event> Engine::events(std::uint64_t after) {
  auto lock = enter();
  return events_.snapshot(after, last_id_);
}

std::vector<MethodTuner::Size> Engine::methods(const Group& group) {
  auto lock = enter();
  return group.method_tuner.sizes();
}

void Engine::settle_exposed() {
  const auto now = Clock::now();
  if (foreground_ > 0) exposed_ += now - exposed_until_;
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
  while (!guests_.empty()) guests_.back()->leave();
  for (const auto& operation : active_) operation->fail({ErrorKind::aborted, "the engine was closed"});
  retire();
  closed_ = true;
  Header goodbye;
  goodbye.frame = Frame::goodbye;
  const std::string before = first_error_ ? encoded(first_error_) : std::string();
  goodbye.length = before.size();
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->control(goodbye, before);
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  for (auto& peer : peers_)
    while (!peer->lost && !peer->link->flush() && Clock::now() < deadline) std::this_thread::yield();
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->hang_up();
  for (auto& [channel, group] : groups_) {
    if (!group->error) group->error = {ErrorKind::aborted, "the engine is closed"};
    group->matcher.clear();
    if (group->segment != nullptr) group->segment->depart();
    group->segment.reset();
  }
  departed_segments_.clear();
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
