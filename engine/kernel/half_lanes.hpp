// Converts as many float16 or bfloat16 at a time as the widest register holds float32, as half.hpp does one.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel/half.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace {

// As many float32 as the widest register holds: they are converted and reduced without leaving the registers.
#if defined(__AVX512F__)
constexpr std::size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr std::size_t kLanes = 8;
#else
constexpr std::size_t kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t LaneInts __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t LaneBits __attribute__((vector_size(kLanes * 4)));
typedef std::uint16_t HalfBits __attribute__((vector_size(kLanes * 2)));

// These convert one element in the same way.
template <typename Half>
inline void widen(const unsigned char* from, Half half, float& value) {
  std::memcpy(&half, from, sizeof half);
  value = widen(half);
}

template <typename Half>
inline void narrow(float value, unsigned char* to, Half half) {
  half = narrow_to(value, half);
  std::memcpy(to, &half, sizeof half);
}

#if defined(__AVX512F__)
inline LaneBits load_bits(const unsigned char* from) {
  return LaneBits(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline void store_bits(LaneBits bits, unsigned char* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(__m512i(bits)));
}
#else
inline LaneBits load_bits(const unsigned char* from) {
  HalfBits bits;
  std::memcpy(&bits, from, sizeof bits);
  return __builtin_convertvector(bits, LaneBits);
}
inline void store_bits(LaneBits bits, unsigned char* to) {
  const HalfBits halves = __builtin_convertvector(bits, HalfBits);
  std::memcpy(to, &halves, sizeof halves);
}
#endif

inline void widen(const unsigned char* from, BFloat16, Lanes& value) { value = Lanes(load_bits(from) << 16); }

inline void narrow(Lanes value, unsigned char* to, BFloat16) {
  const auto bits = LaneBits(value);
  const LaneBits high = bits >> 16;
  store_bits(value != value ? high | 0x40U : (bits + 0x7fffU + (high & 1U)) >> 16, to);
}

// Two vectors, one after the other.
template <typename Half>
inline void narrow_two(Lanes first, Lanes second, unsigned char* to, Half half) {
  narrow(first, to, half);
  narrow(second, to + kLanes * sizeof half, half);
}
#if defined(__AVX512F__)
// One permutation takes the upper halves of both, and whether there is a NaN at all is asked once.
inline void narrow_two(Lanes first, Lanes second, unsigned char* to, BFloat16) {
  typedef std::uint16_t Indices __attribute__((vector_size(kLanes * 4)));
  constexpr Indices kUpper = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                              33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const auto rounded = [](LaneBits bits) { return bits + 0x7fffU + (bits >> 16 & 1U); };
  LaneBits low = rounded(LaneBits(first));
  LaneBits high = rounded(LaneBits(second));
  if (_mm512_cmp_ps_mask(__m512(first), __m512(second), _CMP_UNORD_Q) != 0) {
    low = first != first ? LaneBits(first) | 0x400000U : low;
    high = second != second ? LaneBits(second) | 0x400000U : high;
  }
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(__m512i(low), __m512i(kUpper), __m512i(high)));
}
#endif

#if defined(__AVX512F__)
inline void widen(const unsigned char* from, Float16, Lanes& value) {
  value = Lanes(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline void narrow(Lanes value, unsigned char* to, Float16) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(__m512(value), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
inline void widen(const unsigned char* from, Float16, Lanes& value) {
  value = Lanes(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline void narrow(Lanes value, unsigned char* to, Float16) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(__m256(value), _MM_FROUND_TO_NEAREST_INT));
}
#else
// These do the same as `widen` and `narrow_to` above.
inline void widen(const unsigned char* from, Float16, Lanes& value) {
  const LaneBits bits = load_bits(from);
  const LaneBits magnitude = bits & 0x7fffU;
  const auto subnormal = LaneBits(__builtin_convertvector(LaneInts(magnitude), Lanes) * 0x1p-24F);
  const LaneBits finite = LaneInts(magnitude) < 0x0400 ? subnormal : (magnitude << 13) + 0x38000000U;
  const LaneBits all = LaneInts(magnitude) >= 0x7c00 ? (magnitude << 13) + 0x70000000U : finite;
  value = Lanes(all | (bits & 0x8000U) << 16);
}
inline void narrow(Lanes value, unsigned char* to, Float16) {
  const auto bits = LaneBits(value);
  const LaneBits magnitude = bits & 0x7fffffffU;
  const LaneBits normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  const LaneBits subnormal = LaneBits(Lanes(magnitude) + 0.5F) - 0x3f000000U;
  const LaneBits finite = LaneInts(magnitude) < 0x38800000 ? subnormal : normal;
  const LaneBits none = magnitude - magnitude;
  const LaneBits infinite = LaneInts(magnitude) > 0x7f800000 ? none + 0x7e00U : none + 0x7c00U;
  store_bits((LaneInts(magnitude) >= 0x47800000 ? infinite : finite) | ((bits >> 16) & 0x8000U), to);
}
#endif

}  // namespace
