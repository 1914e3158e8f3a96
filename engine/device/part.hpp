#pragma once

#include <algorithm>
#include <cstddef>

#include "memory/rounding.hpp"

namespace paceline::device {

// The bytes of a buffer that one of several ranks combines. It begins at a multiple of 256 bytes.
struct Part {
  std::size_t begin;
  std::size_t end;
};

inline Part part_of(std::size_t bytes, std::size_t rank, std::size_t ranks) {
  const std::size_t part = rounded_up((bytes + ranks - 1) / ranks, 256);
  const std::size_t begin = std::min(bytes, rank * part);
  return {begin, std::min(bytes, begin + part)};
}

}  // namespace paceline::device
