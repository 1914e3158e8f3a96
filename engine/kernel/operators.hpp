// What the reductions do with two elements, or with two vectors of floats. The functions are constexpr so that nvcc
// compiles them for GPUs too (engine/device).
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstdint>
#include <type_traits>

namespace paceline {
namespace {

struct Sum {
  template <typename T>
  static constexpr T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <typename T>
  static constexpr T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // It goes through 64 unsigned bits: narrower types would be promoted to int and overflow.
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// A NaN in any input is a NaN in the result.
struct Min {
  template <typename T>
  static constexpr T apply(T a, T b) {
    if constexpr (std::is_arithmetic_v<T>)
      return (a < b || a != a) ? a : b;
    else
      return ((a < b) | (a != a)) ? a : b;  // a vector
  }
};
struct Max {
  template <typename T>
  static constexpr T apply(T a, T b) {
    if constexpr (std::is_arithmetic_v<T>)
      return (a > b || a != a) ? a : b;
    else
      return ((a > b) | (a != a)) ? a : b;  // a vector
  }
};
struct And {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace
}  // namespace paceline
