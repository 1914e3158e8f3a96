// What this rank waits for, and on whom: for a timeout's blame, and for warnings before it.
#include <sys/ioctl.h>

#include <algorithm>
#include <set>

#include "progress/engine.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLongestLine = 255;

}  // namespace

// First blames missing ranks that have not begun; after kSilence, missing ranks that no longer report that they wait.
std::vector<int> Engine::absent(const Operation& operation) {
  const auto since = Clock::now() - kSilence;
  if (operation.started <= since && operation.probes && !is_point_to_point(operation.what.collective))
    return blamed(operation.missing(), operation.group->silent(since));
  auto ranks = operation.absent();
  return ranks.empty() ? operation.missing() : ranks;
}

std::string Engine::last_heard(const Group& group, int rank) const {
  const Member& member = group.members[static_cast<std::size_t>(rank)];
  if (member.peer < 0) return {};
  if (const int place = group.segment != nullptr ? group.segment->place_of(rank) : -1; place >= 0) {
    if (const Cell* begun = group.segment->last_begun(place)) {
      const Cell* finished = group.segment->last_finished(place);
      std::string text = describe(begun->what, begun->sequence);
      // One that goes by two epochs may be through with the first.
      const bool same = finished != nullptr && finished->sequence == begun->sequence;
      if (finished == nullptr || (same && finished != begun)) return text;
      if (same) return text + ", which it finished";
      return text + ", and finished " + describe(finished->what, finished->sequence);
    }
  }
  const Peer& peer = peers_[member.peer];
  return peer.seen ? describe(peer.last_seen.fingerprint(), peer.last_seen.sequence) : std::string();
}

std::vector<Wait> Engine::waits() {
  const auto lock = enter();
  const auto now = Clock::now();
  std::vector<Wait> found;
  std::set<std::pair<const Group*, bool>> seen;
  for (const auto& operation : active_) {  // oldest first
    if (operation->over()) continue;
    const Group& group = *operation->group;
    if (group.use != Group::Use::callers && operation->speaks_for_itself()) continue;
    if (!seen.emplace(&group, is_point_to_point(operation->what.collective)).second) continue;
    for (const auto& [waiting, more] : operation->waiting()) {
      Wait& wait = found.emplace_back();
      wait.operation = waiting->id;
      wait.time = now - waiting->started;
      wait.left = waiting->deadline - now;
      wait.thread = waiting->waiter;
      wait.what = waiting->description() + (more > 0 ? " and " + std::to_string(more) + " more" : "");
      for (const int rank : absent(*waiting)) wait.missing.push_back(missed(group, rank, waiting->started));
    }
  }
  return found;
}

void Engine::annotate(std::uint64_t operation, std::string words) {
  const auto lock = enter();
  const auto waits = [this](std::uint64_t id) {
    return std::ranges::any_of(active_, [id](const auto& active) {
      return std::ranges::any_of(active->waiting(), [id](const auto& one) { return one.operation->id == id; });
    });
  };
  std::erase_if(notes_, [&](const auto& note) { return !waits(note.first); });
  if (waits(operation)) notes_[operation] = std::move(words);
}

Missing Engine::missed(const Group& group, int rank, Clock::time_point since) const {
  Missing missing{group.name_of(rank), last_heard(group, rank), {}, {}};
  const int handle = group.members[static_cast<std::size_t>(rank)].peer;
  if (handle < 0) return missing;
  const Peer& peer = peers_[handle];
  if (peer.line.empty() || peer.told < since) return missing;
  missing.line = peer.line;
  missing.ago = Clock::now() - peer.told;
  return missing;
}

void Engine::tell_line(std::string_view line) {
  const auto lock = enter();
  if (closed_ || !active_.empty()) return;
  line = line.substr(0, kLongestLine);
  Header header;
  header.frame = Frame::line;
  header.length = line.size();
  for (Link* link : peers_.tcp_links()) {
    int unread = 0;
    const bool lost = peers_[link->peer()].lost;
    if (!lost && ::ioctl(link->descriptor(), FIONREAD, &unread) == 0 && unread > 0) link->control(header, line);
  }
}

void Engine::hear_line(Peer& peer, std::span<const std::byte> line) {
  peer.told = Clock::now();
  peer.line.clear();
  for (const std::byte byte : line.first(std::min(line.size(), kLongestLine))) {
    const char letter = static_cast<char>(byte);
    peer.line += letter >= ' ' && letter <= '~' ? letter : '?';
  }
}

}  // namespace paceline
