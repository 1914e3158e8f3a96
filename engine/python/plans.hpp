// Reads plans as Python hands them over (see paceline.plan.wire), as tuples of numbers, and checks them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "program/plan.hpp"

namespace paceline {

using WireReduce = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::vector<int>, int>;
using WirePlan =
    std::tuple<std::int64_t, std::string, bool, std::int64_t, std::int64_t, std::vector<std::vector<WireReduce>>>;
using WirePlans = std::map<std::string, std::vector<WirePlan>>;

// Throws Failure for anything that cannot be a plan.
Plans plans_from(const WirePlans& wire);

}  // namespace paceline
