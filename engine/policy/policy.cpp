#include "policy/policy.hpp"

#include "failure/error.hpp"

namespace paceline {

Counters& Counters::operator+=(const Counters& other) {
  cycles += other.cycles;
  synchronisations += other.synchronisations;
  messages += other.messages;
  cache_hits += other.cache_hits;
  cache_misses += other.cache_misses;
  issues += other.issues;
  issued += other.issued;
  deviations += other.deviations;
  return *this;
}

void Policy::set_order(const std::vector<std::vector<std::string>>&) {
  throw Failure(ErrorKind::invalid, "only the policy graph takes an order of requests; choose it, or give no order");
}

void Policy::use(const std::string&, const std::vector<std::vector<std::string>>&) {
  throw Failure(ErrorKind::invalid, "the policy of this coordinator was chosen when it was made, and does not change");
}

void Policy::tune(std::uint64_t) { refuse_to_tune(); }

void Policy::refuse_to_tune() {
  throw Failure(ErrorKind::invalid, "only the policy board can change the size of its batches; choose it");
}

}  // namespace paceline
