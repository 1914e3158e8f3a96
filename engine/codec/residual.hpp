// What encoding loses of an element. constexpr, so that nvcc compiles it for GPUs too (engine/device).
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

namespace paceline {
namespace {

// x - y, or 0 where that is not finite.
constexpr float lost(float x, float y) {
  const float difference = x - y;
  return difference - difference == 0 ? difference : 0;
}

}  // namespace
}  // namespace paceline
