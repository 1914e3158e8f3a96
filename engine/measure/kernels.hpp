// How fast the reduction kernels are, beside what this machine's memory allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/types.hpp"

namespace paceline {

// Nanoseconds of `calls` reductions of two inputs, one after the other, by the kernels that this CPU uses.
std::int64_t time_reduce(const Fold& fold, std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
                         int calls);

// The same of `out[i] = a[i] + b[i]`, a plain float32 loop for this CPU's instruction set: the yardstick.
std::int64_t time_add(float* out, const float* a, const float* b, std::size_t count, int calls);

}  // namespace paceline
