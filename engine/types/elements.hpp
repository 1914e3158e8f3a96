// The element types and reductions that the engine knows. The numbers are part of the Python contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

enum class DType : std::uint8_t {
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  uint8,
  int32,
  int64,
  boolean,
  // The engine moves elements of the types from here on, and tells them apart; complex numbers are combined as pairs.
  complex32,
  complex64,
  complex128,
  int16,
  uint16,
  uint32,
  uint64,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu,
  float4_e2m1fn_x2,
  qint8,
  quint8,
  qint32,
  bytes,  // of elements of any other type
  // With one of these: floats that are the parts of complex numbers, or may be for all that their caller knows.
  parts = 64,
  perhaps_parts = 128,
};
enum class Op : std::uint8_t { sum, avg, premul_sum, product, min, max, band, bor, bxor };

inline constexpr std::array<std::string_view, 26> kDTypeNames = {"float16",        "bfloat16",
                                                                 "float32",        "float64",
                                                                 "int8",           "uint8",
                                                                 "int32",          "int64",
                                                                 "bool",           "complex32",
                                                                 "complex64",      "complex128",
                                                                 "int16",          "uint16",
                                                                 "uint32",         "uint64",
                                                                 "float8_e4m3fn",  "float8_e4m3fnuz",
                                                                 "float8_e5m2",    "float8_e5m2fnuz",
                                                                 "float8_e8m0fnu", "float4_e2m1fn_x2",
                                                                 "qint8",          "quint8",
                                                                 "qint32",         "bytes"};
inline constexpr std::array<std::string_view, 9> kOpNames = {"SUM", "AVG",  "PREMUL_SUM", "PRODUCT", "MIN",
                                                             "MAX", "BAND", "BOR",        "BXOR"};

inline constexpr DType operator|(DType dtype, DType mark) {
  return static_cast<DType>(static_cast<std::uint8_t>(dtype) | static_cast<std::uint8_t>(mark));
}
inline constexpr DType unmarked(DType dtype) {
  return static_cast<DType>(static_cast<std::uint8_t>(dtype) & (static_cast<std::uint8_t>(DType::parts) - 1));
}

inline constexpr std::string_view name_of(DType dtype) {
  return kDTypeNames[static_cast<std::size_t>(unmarked(dtype))];
}

inline constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, kDTypeNames.size()> sizes = {2, 2, 4, 8, 1, 1, 4, 8, 1, 4, 8, 16, 2,
                                                                 2, 4, 8, 1, 1, 1, 1, 1, 1, 1, 1, 4,  1};
  return sizes[static_cast<std::size_t>(unmarked(dtype))];
}

// Returns whether the kernels have the type.
inline constexpr bool is_combined(DType dtype) { return dtype <= DType::boolean; }
inline constexpr bool is_float(DType dtype) { return dtype <= DType::float64; }

// Returns whether the kernels have `op` for `dtype`: bits of floats are not combined, and bools are not scaled.
inline constexpr bool supports(DType dtype, Op op) {
  if (!is_combined(dtype)) return false;
  if (op >= Op::band) return !is_float(dtype);
  if (op == Op::premul_sum) return is_float(dtype);
  return op != Op::avg || dtype != DType::boolean;
}

// Numbers as the kernels take them.
struct Numbers {
  DType dtype;
  std::size_t count;

  bool operator==(const Numbers&) const = default;
};

// Returns what `count` elements consist of: complex numbers are pairs of real ones.
inline constexpr Numbers parts_of(DType dtype, std::size_t count) {
  switch (dtype) {
    case DType::complex32: return {DType::float16, 2 * count};
    case DType::complex64: return {DType::float32, 2 * count};
    case DType::complex128: return {DType::float64, 2 * count};
    default: return {unmarked(dtype), count};
  }
}

// Returns what so many numbers are for their caller, if they are marked as the parts of complex ones.
inline constexpr Numbers whole_of(DType dtype, std::size_t count) {
  if (dtype != (unmarked(dtype) | DType::parts)) return {unmarked(dtype), count};
  switch (unmarked(dtype)) {
    case DType::float16: return {DType::complex32, count / 2};
    case DType::float32: return {DType::complex64, count / 2};
    case DType::float64: return {DType::complex128, count / 2};
    default: return {unmarked(dtype), count};
  }
}

// How inputs are combined: by `op` over all of them, after which the result is divided by `divisor`.
struct Fold {
  DType dtype;
  Op op;
  double divisor = 1;
};

}  // namespace paceline
