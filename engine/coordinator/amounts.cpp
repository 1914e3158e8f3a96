#include "coordinator/amounts.hpp"

namespace paceline {

// A rank that has joined brings nothing.
Handle Amounts::exchange(const BatchContext& context, const Carried& one) {
  const Fingerprint& what = one.request->what;
  rank_ = static_cast<std::size_t>(context.group.rank);
  if (what.collective == Collective::all_to_all) {
    mine_.assign(one.own->counts.begin(), one.own->counts.end());
  } else {
    mine_ = {one.own == nullptr ? 0 : one.own->request->bytes / size_of(what.dtype)};
  }
  all_.resize(static_cast<std::size_t>(context.group.size()) * mine_.size());
  const auto call = gather_bytes(mine_.data(), all_.data(), mine_.size() * sizeof(mine_.front()));
  return start(context.engine, context.group, call, Mode::inside);
}

std::vector<std::size_t> Amounts::received() const {
  const std::size_t ranks = all_.size() / mine_.size();
  std::vector<std::size_t> counts(ranks);
  for (std::size_t from = 0; from < ranks; ++from)
    counts[from] = all_[from * mine_.size() + (mine_.size() > 1 ? rank_ : 0)];
  return counts;
}

}  // namespace paceline
