// Requests for policies that nobody carries out.
#pragma once

#include <string>

#include "policy/request.hpp"

namespace paceline {

// A name with a number behind it. Not by operator+, in whose inlined copies GCC 12 sees bounds exceeded that are not.
inline std::string numbered(std::string name, std::uint64_t number) {
  name += std::to_string(number);
  return name;
}

inline Request request(const std::string& name, std::uint64_t count = 4) {
  Request made;
  made.name = name;
  made.what = {count, -1, Collective::all_reduce, DType::float32, Op::sum};
  made.shape = std::to_string(count);
  made.bytes = 4 * count;
  return made;
}

}  // namespace paceline
