#pragma once

#include <cstddef>

namespace paceline {

// Returns whether one buffer may be read while the other is written: they are the same, or do not overlap.
inline bool same_or_apart(const std::byte* one, const std::byte* other, std::size_t bytes) {
  return one == other || one + bytes <= other || other + bytes <= one;
}

}  // namespace paceline
