// The scale of a group of int8 or int4. constexpr, so that nvcc compiles it for GPUs too (engine/device).
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstdint>

#include "kernel/half.hpp"

namespace paceline {
namespace {

struct Scale {
  float value;
  float inverse;  // 0 where all multiples are 0
};

// `most`: the bits of the largest magnitude in a group.
template <int kMost>
constexpr Scale scale_of(std::int32_t most) {
  constexpr std::int32_t kInfinite = 0x7f800000;
  constexpr float kLeast = 0x1p-119F;  // below, the scale would not be a normal number
  constexpr float kLargest = kMost == 127 ? 0x1.0204p+121F : 0x1.2492p+125F;  // of 16 bits; kMost of it are finite
  if (most >= kInfinite) return {__builtin_nanf(""), 0};
  const float magnitude = as_float(static_cast<std::uint32_t>(most));
  if (magnitude < kLeast) return {0, 0};
  const float scale = as_float((as_bits(magnitude / kMost) + 0xffU) & ~0xffU);
  const float kept = scale < kLargest ? scale : kLargest;
  return {kept, 1 / kept};
}

// Added to a small number, it leaves the nearest integer in the lowest bits.
constexpr float kRound = 0x1.8p23F;

}  // namespace
}  // namespace paceline
