// Reductions over memory: they take n inputs, make one pass, and write the result to one place or to several.
#pragma once

#include <cstddef>
#include <vector>

#include "types/elements.hpp"

namespace paceline {

struct Kernels {
  const char* isa;
  // out[i] = in[0][i] op in[1][i] op ... in[inputs-1][i], combined in that order. An input may be `out` itself;
  // no alignment is required. float16 and bfloat16 are combined in float32 and rounded once.
  void (*reduce)(const Fold& fold, std::byte* out, const std::byte* const* in, std::size_t inputs, std::size_t count);
  // The same, written to several outputs, each of which may be an input.
  void (*reduce_to_all)(const Fold& fold, std::byte* const* out, std::size_t outputs, const std::byte* const* in,
                        std::size_t inputs, std::size_t count);
  // out[i] = in[i] * factor; floats only. `out` may be `in`.
  void (*scale)(DType dtype, std::byte* out, const std::byte* in, std::size_t count, double factor);
  // out[i] = in[i] / divisor; integers are truncated towards zero.
  void (*divide)(DType dtype, std::byte* out, const std::byte* in, std::size_t count, double divisor);
  // Does what memcpy does, by loads and stores: `rep movsb`, which C libraries prefer, takes up to three times as long
  // in some runs.
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes);
};

// Return the kernels for the best instruction set that this CPU has, and all kernels that it can run.
const Kernels& kernels();
std::vector<const Kernels*> available_kernels();

}  // namespace paceline
