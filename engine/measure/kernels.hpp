// Measures how fast the reduction kernels are, beside what this machine's memory allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types/elements.hpp"

namespace paceline {

// Returns the nanoseconds of `calls` reductions of two inputs, one after the other, by the kernels that this CPU uses.
std::int64_t time_reduce(const Fold& fold, std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
                         int calls);

// Returns the same for the yardstick `out[i] = a[i] + b[i]`, a plain float32 loop for this CPU's instruction set.
std::int64_t time_add(float* out, const float* a, const float* b, std::size_t count, int calls);

}  // namespace paceline
