// Converts float16 and bfloat16 to float32 and back, by integer arithmetic that compilers vectorise. Rounds to nearest
// even. The functions are constexpr so that nvcc compiles them for GPUs too (engine/device).
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstdint>

namespace {

constexpr float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
constexpr std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

struct BFloat16 {
  std::uint16_t bits;
};

constexpr float widen(BFloat16 value) { return as_float(static_cast<std::uint32_t>(value.bits) << 16); }

constexpr BFloat16 narrow_to(float value, BFloat16) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded)};
}

struct Float16 {
  std::uint16_t bits;
};

constexpr float widen(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  // Normal numbers: rebias the exponent; subnormals: let the float unit normalise; infinities and NaNs: top exponent.
  const std::uint32_t normal = (magnitude << 13) + 0x38000000U;
  const std::uint32_t special = (magnitude << 13) + 0x70000000U;
  const std::uint32_t subnormal = as_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t finite = magnitude < 0x0400U ? subnormal : normal;
  return as_float(sign | (magnitude >= 0x7c00U ? special : finite));
}

constexpr Float16 narrow_to(float value, Float16) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding a half puts the wanted subnormal bits at the bottom of the mantissa, rounded by the float unit.
  const std::uint32_t subnormal = as_bits(as_float(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t infinite = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  return {static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000U ? infinite : finite))};
}

}  // namespace
