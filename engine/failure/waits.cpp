// What this rank waits for, and on whom: for a timeout's blame, and for warnings before it.
#include <algorithm>
#include <iterator>
#include <set>

#include "progress/engine.hpp"

namespace paceline {

// Who has not even begun is to blame; who has begun may itself be waiting for them. If all have begun, those who do not
// say any more that they wait: their machine or its network may be gone.
std::vector<int> Engine::absent(const Operation& operation) {
  auto ranks = operation.absent();
  if (!ranks.empty()) return ranks;
  auto missing = operation.missing();
  const auto since = Clock::now() - 2 * kProbeAfter;
  if (!operation.probes || is_point_to_point(operation.what.collective) || operation.started > since) return missing;
  const auto silent = operation.group->silent(since);
  std::ranges::set_intersection(missing, silent, std::back_inserter(ranks));
  if (ranks.empty()) std::ranges::set_union(missing, silent, std::back_inserter(ranks));
  return ranks;
}

std::string Engine::last_heard(const Group& group, int rank) const {
  const Member& member = group.members[static_cast<std::size_t>(rank)];
  if (member.peer < 0) return {};
  if (group.lane != nullptr) {
    if (const Cell* begun = group.lane->last_begun(rank)) {
      const Cell* finished = group.lane->last_finished(rank);
      std::string text = describe(begun->what, begun->sequence);
      if (finished == nullptr) return text;
      if (finished == begun) return text + ", which it finished";
      return text + ", and finished " + describe(finished->what, finished->sequence);
    }
  }
  const Peer& peer = *peers_[static_cast<std::size_t>(member.peer)];
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
      wait.thread = waiting->waiter;
      wait.what = waiting->description() + (more > 0 ? " and " + std::to_string(more) + " more" : "");
      for (const int rank : absent(*waiting)) wait.missing.emplace_back(group.name_of(rank), last_heard(group, rank));
    }
  }
  return found;
}

}  // namespace paceline
