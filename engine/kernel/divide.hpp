// Computes quotients without dividing if there is a quicker way to the same bits.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernel/words.hpp"

namespace paceline {
namespace {

// To multiply by the inverse of a power of two gives the same bits as to divide, and is quicker.
bool is_power_of_two(double value) {
  int exponent = 0;
  return __builtin_frexp(value, &exponent) == 0.5 && exponent > 0 && exponent < 60;
}

// Divides integers of up to 32 bits, in floats that hold them exactly. Half a unit further from zero no quotient is so
// near to a whole number that rounding could take it across, so it is enough to multiply by the inverse.
template <typename T, typename Float>
void divide_small(typename Loose<T>::type* out, std::size_t count, double divisor) {
  const auto inverse = static_cast<Float>(1 / divisor);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Float>(out[i]);
    out[i] = static_cast<T>(static_cast<std::int32_t>((value + (value < 0 ? Float(-0.5) : Float(0.5))) * inverse));
  }
}

constexpr double kMostShifted = 64;  // a divisor that fits into every integer type

// A shift rounds down. What is added before makes it truncate.
template <typename T>
void shift(typename Loose<T>::type* out, std::size_t count, T divisor) {
  const int bits = __builtin_ctzll(static_cast<std::uint64_t>(divisor));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = out[i];
    out[i] = static_cast<T>((value + (value < 0 ? divisor - 1 : 0)) >> bits);
  }
}

// Divides integers of 64 bits: it adds up a quotient in double precision, that of the small remainder, and the step by
// which rounding may have gone too far.
void divide_long(Loose<std::int64_t>::type* out, std::size_t count, double divisor) {
  const auto by = static_cast<std::uint64_t>(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = out[i];
    auto quotient = static_cast<std::int64_t>(static_cast<double>(value) / divisor);
    auto rest =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(quotient) * by);
    const auto more = static_cast<std::int64_t>(static_cast<double>(rest) / divisor);
    quotient += more;
    rest = static_cast<std::int64_t>(static_cast<std::uint64_t>(rest) - static_cast<std::uint64_t>(more) * by);
    quotient += (value < 0 && rest > 0) - (value > 0 && rest < 0);
    out[i] = quotient;
  }
}

template <typename T>
void divide_block(typename Loose<T>::type* out, std::size_t count, double divisor) {
  if constexpr (std::is_integral_v<T>) {
    if (is_power_of_two(divisor) && divisor <= kMostShifted)
      shift<T>(out, count, static_cast<T>(divisor));
    else if constexpr (std::is_same_v<T, std::int64_t>)
      divide_long(out, count, divisor);
    else
      divide_small<T, std::conditional_t<sizeof(T) == 4, double, float>>(out, count, divisor);
  } else if (is_power_of_two(divisor)) {
    const T factor = static_cast<T>(1 / divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = out[i] * factor;
  } else {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = out[i] / by;
  }
}

}  // namespace
}  // namespace paceline
