#include "progress/waits.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace paceline {

std::vector<Wait> Waits::list() const {
  const auto now = Clock::now();
  std::vector<Wait> found;
  std::set<std::pair<const Group*, bool>> seen;
  for (const auto& operation : operations_) {  // oldest first
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
      for (const std::string& who : culprits_.named(*waiting))
        wait.missing.push_back(whereabouts_.missed(group, who, waiting->started));
    }
  }
  return found;
}

void Waits::annotate(std::uint64_t operation, std::string words) {
  const auto waits = [this](std::uint64_t id) {
    return operations_.any([id](const Operation& active) {
      return std::ranges::any_of(active.waiting(), [id](const auto& one) { return one.operation->id == id; });
    });
  };
  std::erase_if(notes_, [&](const auto& note) { return !waits(note.first); });
  if (waits(operation)) notes_[operation] = std::move(words);
}

std::string Waits::note(std::uint64_t operation) const {
  const auto found = notes_.find(operation);
  return found == notes_.end() ? std::string() : found->second;
}

}  // namespace paceline
