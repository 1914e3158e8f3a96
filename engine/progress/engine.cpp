#include "progress/engine.hpp"

#include <system_error>
#include <thread>

#include "calibration/constants.hpp"
#include "link/shm.hpp"
#include "link/tcp.hpp"
#include "progress/fork.hpp"

namespace paceline {
namespace {

constexpr std::size_t kWorkspace = std::size_t{1} << 20;  // bytes of scratch memory that all links and operations share

}  // namespace

Engine::Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
               std::function<bool()> interrupted, int home)
    : arena_(std::move(arena)),
      description_(std::move(description)),
      interrupted_(std::move(interrupted)),
      caller_budget_{.spin = spin, .yield = calibration::kYield, .longest = calibration::kLongestYield},
      bulk_budget_{.spin = spin, .yield = calibration::kYield},
      server_budget_{.yield = calibration::kYield},
      placement_(home),
      workspace_(kWorkspace) {
  track_for_fork(this);
}

Engine::~Engine() {
  close();
  untrack_for_fork(this);
}

int Engine::add_peer(std::unique_ptr<Link> link, std::string description) {
  const int handle = link->peer();
  constexpr std::uint32_t kInterest = EPOLLIN | EPOLLRDHUP;
  if (!wakeups_.add(link->descriptor(), static_cast<std::uint64_t>(handle), kInterest))
    throw std::system_error(errno, std::generic_category(), "cannot listen to " + description);
  peers_.add(std::move(link), std::move(description)).interest = kInterest;
  return handle;
}

int Engine::add_tcp_peer(Descriptor socket, std::string description) {
  auto lock = enter();
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  const int handle = peers_.next_handle();
  return add_peer(std::make_unique<TcpLink>(handle, std::move(socket), std::span(workspace_)), std::move(description));
}

int Engine::add_shm_peer(ShmPeer reach, std::string description) {
  auto lock = enter();
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  const int handle = peers_.next_handle();
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

std::chrono::nanoseconds Engine::exposed() {
  auto lock = enter();
  return callers_.exposed();
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
  const Error& error = first_error_.error();
  const std::string before = error ? encoded(error) : std::string();
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
  peers_.clear();
  orphans_.clear();
  finished_.clear();
  wake_server();
}

void Engine::forget_after_fork() {
  for (auto& peer : peers_) peer->link->forget_after_fork();
  wakeups_.close();
}

}  // namespace paceline
