// What is due at a certain time: the end of an operation that takes too long, and word of one that takes long.
#include <algorithm>
#include <cstdio>

#include "progress/engine.hpp"

namespace paceline {

void Engine::check_clocks() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Operation& operation = *active_[i];
    if (operation.over()) continue;
    if (now >= operation.urgent().deadline) {
      time_out(operation);
    } else if (operation.probes && now - operation.probed >= kProbeAfter) {
      operation.probed = now;
      probe(operation);
    }
  }
}

// Fails the group, and says whom the operation waits for.
void Engine::time_out(Operation& operation) {
  Group& group = *operation.group;
  const Operation& urgent = operation.urgent();
  const auto waited = std::chrono::duration<double>(Clock::now() - urgent.started).count();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, waited < 100 ? "%.3g" : "%.0f", waited);
  // The others may be told of it in operations of another name.
  const std::string it = &urgent == &operation ? "it" : urgent.description();
  std::string reason = "reached its timeout of " + std::string(seconds) + " s on ";
  reason.append(group.name_of(group.rank)).append(": ").append(it).append(" waits for ");
  const auto ranks = absent(urgent);
  const char* separator = "";
  for (const int rank : ranks) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    reason.append(separator).append(group.name_of(rank));
    if (const std::string link = member.peer < 0 ? "" : member.link->condition(); !link.empty())
      reason.append(", ").append(link);
    separator = "; ";
  }
  if (const auto note = notes_.find(urgent.id); note != notes_.end()) reason.append("; ").append(note->second);
  const bool one = ranks.size() == 1;
  fail_group(group, {ErrorKind::timeout, reason,
                     one ? group.members[static_cast<std::size_t>(ranks.front())].description : std::string()});
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
