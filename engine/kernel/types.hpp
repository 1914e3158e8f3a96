// The element types and reductions that the engine combines. The numbers are part of the Python contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

enum class DType : std::uint8_t { float16, bfloat16, float32, float64, int8, uint8, int32, int64, boolean };
enum class Op : std::uint8_t { sum, avg, premul_sum, product, min, max, band, bor, bxor };

inline constexpr std::array<std::string_view, 9> kDTypeNames = {"float16", "bfloat16", "float32", "float64", "int8",
                                                                "uint8",   "int32",    "int64",   "bool"};
inline constexpr std::array<std::string_view, 9> kOpNames = {"SUM", "AVG",  "PREMUL_SUM", "PRODUCT", "MIN",
                                                             "MAX", "BAND", "BOR",        "BXOR"};

inline constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 9> sizes = {2, 2, 4, 8, 1, 1, 4, 8, 1};
  return sizes[static_cast<std::size_t>(dtype)];
}

inline constexpr bool is_float(DType dtype) { return dtype <= DType::float64; }

// Returns whether `op` is defined for `dtype`: bits of floats are not combined, and bools are not scaled.
inline constexpr bool supports(DType dtype, Op op) {
  if (op >= Op::band) return !is_float(dtype);
  if (op == Op::premul_sum) return is_float(dtype);
  return op != Op::avg || dtype != DType::boolean;
}

// How inputs are combined: by `op` over all of them, after which the result is divided by `divisor`.
struct Fold {
  DType dtype;
  Op op;
  double divisor = 1;
};

}  // namespace paceline
