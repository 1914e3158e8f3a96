#include "progress/deadlines.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace paceline {

void Deadlines::check() {
  const auto now = Clock::now();
  forgive_pause(now);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = *operations_[i];
    if (operation.over()) continue;
    if (now >= operation.urgent().deadline) {
      time_out(operation);
    } else if (operation.probes && now - operation.probed >= kProbeAfter) {
      operation.probed = now;
      if (is_oldest(i)) whereabouts_.report_wait(operation);
    }
  }
}

// While something is under way, a thread looks here at least once in kLongestPark. If none has for long, this process
// was stopped, as in a job that is suspended: other ranks may have been as well, and are not to blame.
void Deadlines::forgive_pause(Clock::time_point now) {
  const auto before = std::exchange(checked_, now);
  if (now - before < 2 * Sleepers::kLongestPark) return;
  for (const auto& operation : operations_)
    if (!operation->over()) operation->postpone(before, now, Sleepers::kLongestPark);
}

// The others of its group wait for the oldest collective.
bool Deadlines::is_oldest(std::size_t index) const {
  const Operation& operation = *operations_[index];
  for (std::size_t i = 0; i < index; ++i) {
    const Operation& older = *operations_[i];
    if (older.group == operation.group && older.probes && !older.over() && !is_point_to_point(older.what.collective))
      return false;
  }
  return true;
}

// Fails the group, and says whom the operation waits for.
void Deadlines::time_out(const Operation& operation) {
  Group& group = *operation.group;
  const Operation& urgent = operation.urgent();
  const auto waited = std::chrono::duration<double>(Clock::now() - urgent.started).count();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, waited < 100 ? "%.3g" : "%.0f", waited);
  // Other ranks may hear of it in an operation with another name.
  const std::string it = &urgent == &operation ? "it" : urgent.description();
  std::string reason = "reached its timeout of " + std::string(seconds) + " s on ";
  reason.append(group.name_of(group.rank)).append(": ").append(it).append(" waits for ");
  const auto ranks = Whereabouts::absent(urgent);
  const char* separator = "";
  for (const int rank : ranks) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    reason.append(separator).append(group.name_of(rank));
    if (const std::string link = member.peer < 0 ? "" : member.link->condition(); !link.empty())
      reason.append(", ").append(link);
    separator = "; ";
  }
  if (const std::string note = waits_.note(urgent.id); !note.empty()) reason.append("; ").append(note);
  const bool one = ranks.size() == 1;
  failures_.fail(group, {ErrorKind::timeout, reason,
                         one ? group.members[static_cast<std::size_t>(ranks.front())].description : std::string()});
}

Clock::time_point Deadlines::next() const {
  auto next = Clock::now() + Sleepers::kLongestPark;
  for (const auto& operation : operations_) {
    next = std::min({next, operation->urgent().deadline, operation->wake});
    if (operation->probes) next = std::min(next, operation->probed + kProbeAfter);
  }
  return next;
}

}  // namespace paceline
