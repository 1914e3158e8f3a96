// float16 and bfloat16 to float32 and back, by integer arithmetic that compilers vectorise. Rounds to nearest even.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace {

inline float as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t as_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct BFloat16 {
  std::uint16_t bits;
};

inline float widen(BFloat16 value) { return as_float(static_cast<std::uint32_t>(value.bits) << 16); }

inline BFloat16 narrow_to(float value, BFloat16) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded)};
}

struct Float16 {
  std::uint16_t bits;
};

inline float widen(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  // Normal numbers: rebias the exponent; subnormals: let the float unit normalise; infinities and NaNs: top exponent.
  const std::uint32_t normal = (magnitude << 13) + 0x38000000U;
  const std::uint32_t special = (magnitude << 13) + 0x70000000U;
  const std::uint32_t subnormal = as_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t finite = magnitude < 0x0400U ? subnormal : normal;
  return as_float(sign | (magnitude >= 0x7c00U ? special : finite));
}

inline Float16 narrow_to(float value, Float16) {
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

template <typename Half>
inline void widen_block(const unsigned char* in, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Half half;
    std::memcpy(&half, in + i * sizeof half, sizeof half);
    out[i] = widen(half);
  }
}

template <typename Half>
inline void narrow_block(const float* in, unsigned char* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Half half = narrow_to(in[i], Half{});
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

#ifdef __F16C__
template <>
inline void widen_block<Float16>(const unsigned char* in, float* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * 2));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) {
    Float16 half;
    std::memcpy(&half, in + i * 2, 2);
    out[i] = widen(half);
  }
}

template <>
inline void narrow_block<Float16>(const float* in, unsigned char* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * 2), halves);
  }
  for (; i < count; ++i) {
    const Float16 half = narrow_to(in[i], Float16{});
    std::memcpy(out + i * 2, &half, 2);
  }
}
#endif

}  // namespace
