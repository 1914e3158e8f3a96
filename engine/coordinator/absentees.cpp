#include "coordinator/absentees.hpp"

#include <algorithm>

namespace paceline {

std::vector<int> Absentees::known(const PendingRequest& pending) const {
  return pending.join ? std::vector<int>() : agreement_.policy().missing(*pending.request);
}

std::vector<int> Absentees::yet_to_submit(const PendingRequest& pending) const {
  if (pending.issued) return {};
  auto ranks = known(pending);
  if (ranks.empty())
    for (std::size_t rank = 0; rank < pending.submitted.size(); ++rank)
      if (!pending.submitted[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::vector<int> Absentees::missing(const PendingRequest& pending) const {
  auto ranks = yet_to_submit(pending);
  if (!ranks.empty()) return ranks;
  for (const Operation* operation : under_way())
    for (const int rank : operation->missing())
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  return ranks;
}

std::vector<const Operation*> Absentees::parts(const PendingRequest& pending) const {
  auto operations = yet_to_submit(pending).empty() ? under_way() : std::vector<const Operation*>();
  if (operations.empty()) operations.push_back(&pending);
  return operations;
}

// Once all ranks have submitted a request, it waits for what is under way before it, or for its own data.
std::vector<const Operation*> Absentees::under_way() const {
  std::vector<const Operation*> operations;
  const auto add = [&](const Handle& operation) {
    if (operation != nullptr && !operation->over()) operations.push_back(operation.get());
  };
  std::ranges::for_each(batches_.moving(), add);
  add(agreement_.synchronising());
  return operations;
}

}  // namespace paceline
