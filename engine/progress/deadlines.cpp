#include "progress/deadlines.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace paceline {

namespace {

constexpr std::size_t kMostBetween = 3;  // ranks that are named between the one that waits and the one to blame

}  // namespace

void Deadlines::check() {
  const auto now = Clock::now();
  forgive_pause(now);
  bool asks = false;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = *operations_[i];
    if (operation.over()) continue;
    const Operation& urgent = operation.urgent();
    if (now >= urgent.deadline) {
      time_out(operation);
      continue;
    }
    asks |= now >= culprits_.due(urgent);
    if (operation.probes && now - operation.probed >= kProbeAfter) {
      operation.probed = now;
      if (is_oldest(i)) whereabouts_.report_wait(operation);
    }
  }
  if (asks) culprits_.ask(now);
}

// While something is under way, a thread looks here at least once in kLongestPark. If none has for long, this process
// was stopped, as in a job that is suspended: other ranks may have been as well, and are not to blame.
void Deadlines::forgive_pause(Clock::time_point now) {
  const auto before = std::exchange(checked_, now);
  if (now - before < 2 * Sleepers::kLongestPark) return;
  for (const auto& operation : operations_)
    if (!operation->over()) operation->postpone(before, now, Sleepers::kLongestPark);
  culprits_.forgive(now - before - Sleepers::kLongestPark);
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
  const Blame blame = culprits_.of(urgent);
  std::string reason = "reached its timeout of " + std::string(seconds) + " s on " + group.name_of(group.rank) + ": " +
                       it + " waits for " + words_for(blame, group);
  if (const std::string note = waits_.note(urgent.id); !note.empty()) reason.append("; ").append(note);
  const bool one = blame.roots.size() == 1 && blame.circle.empty();
  failures_.fail(group, {ErrorKind::timeout, reason, one ? blame.roots.front().who : std::string()});
}

// For example: rank 2 (b, 12), which waits for rank 0 (a, 11)
std::string Deadlines::words_for(const Blame& blame, const Group& group) const {
  std::string text;
  for (const Blame::Root& root : blame.roots) {
    if (!text.empty()) text += "; ";
    const std::size_t between = std::min(root.by.size(), kMostBetween);
    for (std::size_t i = 0; i < between; ++i) {
      const std::size_t more = i + 1 == between ? root.by.size() - between : 0;
      text.append(group.name_of(root.by[i])).append(", which waits ");
      if (more > 0)
        text.append("through ").append(std::to_string(more)).append(more > 1 ? " more ranks " : " more rank ");
      text += "for ";
    }
    text += group.name_of(root.who);
    const int handle = peers_.find(root.who);
    if (const std::string link = handle < 0 ? "" : peers_[handle].link->condition(); !link.empty())
      text.append(", ").append(link);
  }
  for (std::size_t i = 0; i < blame.circle.size(); ++i) {
    text.append(i == 0 ? "; " : i + 1 == blame.circle.size() ? " and " : ", ").append(group.name_of(blame.circle[i]));
    if (i + 1 == blame.circle.size()) text += " wait for each other";
  }
  return text;
}

Clock::time_point Deadlines::next() const {
  auto next = Clock::now() + Sleepers::kLongestPark;
  for (const auto& operation : operations_) {
    const Operation& urgent = operation->urgent();
    next = std::min({next, urgent.deadline, culprits_.due(urgent), operation->wake});
    if (operation->probes) next = std::min(next, operation->probed + kProbeAfter);
  }
  return next;
}

}  // namespace paceline
