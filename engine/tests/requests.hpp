// Requests for policies that nobody carries out.
#pragma once

#include <string>

#include "coordinate/request.hpp"

namespace paceline {

inline Request request(const std::string& name, std::uint64_t count = 4) {
  Request made;
  made.name = name;
  made.what = {count, -1, Collective::all_reduce, DType::float32, Op::sum};
  made.shape = std::to_string(count);
  made.bytes = 4 * count;
  return made;
}

}  // namespace paceline
