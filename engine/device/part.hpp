#pragma once

#include <algorithm>
#include <cstddef>

#include "memory/rounding.hpp"

namespace paceline::device {

// Bytes of a buffer.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

// What one of several ranks combines of a buffer. It begins at a multiple of 256 bytes.
inline Part part_of(std::size_t bytes, std::size_t rank, std::size_t ranks) {
  const std::size_t part = rounded_up((bytes + ranks - 1) / ranks, 256);
  const std::size_t begin = std::min(bytes, rank * part);
  return {begin, std::min(bytes, begin + part)};
}

}  // namespace paceline::device
