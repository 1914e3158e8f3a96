#include "coordinate/policy.hpp"

#include "failure/error.hpp"

namespace paceline {

void Policy::set_order(const std::vector<std::vector<std::string>>&) {
  throw Failure(ErrorKind::invalid, "only the policy graph takes an order of requests; choose it, or give no order");
}

}  // namespace paceline
