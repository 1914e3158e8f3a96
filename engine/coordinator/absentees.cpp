#include "coordinator/absentees.hpp"

#include <algorithm>

namespace paceline {

std::vector<int> Absentees::known(const PendingRequest& pending) const {
  return pending.join ? std::vector<int>() : agreement_.policy().missing(*pending.request);
}

std::vector<int> Absentees::missing(const PendingRequest& pending) const {
  std::vector<int> ranks;
  if (!pending.issued) {
    ranks = known(pending);
    if (ranks.empty())
      for (std::size_t rank = 0; rank < pending.handed_in.size(); ++rank)
        if (!pending.handed_in[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks.empty() ? behind_all() : ranks;
}

// All ranks have handed it in: it waits for what is under way before it, or for its own data.
std::vector<int> Absentees::behind_all() const {
  std::vector<int> ranks;
  const auto add_all = [&](const Handle& operation) {
    if (operation == nullptr || operation->over()) return;
    for (const int rank : operation->missing())
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  std::ranges::for_each(batches_.moving(), add_all);
  add_all(agreement_.synchronising());
  return ranks;
}

// What this rank knows of the missing ranks may be older than what they wait for themselves.
std::vector<int> Absentees::absent(const PendingRequest& pending) const {
  const auto since = Clock::now() - kSilence;
  auto ranks = missing(pending);
  if (ranks.empty() || pending.started > since) return ranks;
  auto silent = control_.silent(since);
  batches_.keep_silent(silent, since);
  return blamed(std::move(ranks), silent);
}

}  // namespace paceline
