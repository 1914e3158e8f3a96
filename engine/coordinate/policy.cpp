#include "coordinate/policy.hpp"

#include "failure/error.hpp"

namespace paceline {

void Policy::set_order(const std::vector<std::vector<std::string>>&) {
  throw Failure(ErrorKind::invalid, "only the policy graph takes an order of requests; choose it, or give no order");
}

void Policy::tune(std::uint64_t) { refuse_to_tune(); }

void Policy::refuse_to_tune() {
  throw Failure(ErrorKind::invalid, "only the policy board can change the size of its batches; choose it");
}

}  // namespace paceline
