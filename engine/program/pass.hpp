// What moves in a collective that moves data along a plan, stage by stage.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline {

// Bytes [begin, end) of a piece go from one rank to another.
struct Pass {
  int from;
  int to;
  std::size_t begin;
  std::size_t end;
};

using Passes = std::vector<std::vector<Pass>>;  // by stage

}  // namespace paceline
