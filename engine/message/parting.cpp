#include "message/parting.hpp"

#include <utility>

namespace paceline {

Parting::Parting(const Group& left, std::function<bool(int rank)> reaches) : reaches_(std::move(reaches)) {
  sequence = left.sequence() - 1;
  what = left.last();
  probes = false;
  started = Clock::now();
  wake = started + kLongest;
  deadline = Clock::time_point::max();  // the group does not fail because a rank is late
}

std::vector<int> Parting::unheard() const {
  auto ranks = group->unheard(sequence);
  std::erase_if(ranks, [this](int rank) { return !reaches_(rank); });
  return ranks;
}

void Parting::group_failed(const Error& error) {
  if (error.kind == ErrorKind::mismatch) return Operation::group_failed(error);
  given_up_ = true;
}

}  // namespace paceline
