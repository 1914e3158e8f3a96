// Vectors of float32 and their bits in memory of any alignment, and bytes to and from vectors.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel/half_lanes.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace paceline {
namespace {

typedef std::int8_t LaneBytes __attribute__((vector_size(kLanes)));

inline Lanes load(const std::byte* from) {
  Lanes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline float load_one(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Where decoded float32 go.
struct Store {
  static void put(std::byte* out, Lanes value) { std::memcpy(out, &value, sizeof value); }
  static void put(std::byte* out, float value) { std::memcpy(out, &value, sizeof value); }
};
struct Add {
  static void put(std::byte* out, Lanes value) { Store::put(out, load(out) + value); }
  static void put(std::byte* out, float value) { Store::put(out, load_one(out) + value); }
};

// The lowest byte of each lane, and back again with its sign.
#if defined(__AVX512F__)
inline void store_low_bytes(LaneInts value, std::byte* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(__m512i(value)));
}
inline LaneInts load_signed_bytes(const std::byte* from) {
  return LaneInts(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
#elif defined(__AVX2__)
inline void store_low_bytes(LaneInts value, std::byte* to) {
  const __m256i bytes = __m256i(value & 0xff);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
inline LaneInts load_signed_bytes(const std::byte* from) {
  return LaneInts(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#else
inline void store_low_bytes(LaneInts value, std::byte* to) {
  const LaneBytes bytes = __builtin_convertvector(value, LaneBytes);
  std::memcpy(to, &bytes, sizeof bytes);
}
inline LaneInts load_signed_bytes(const std::byte* from) {
  LaneBytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, LaneInts);
}
#endif

inline std::int32_t largest(LaneInts value) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_epi32(__m512i(value));
#else
  std::int32_t most = value[0];
  for (std::size_t i = 1; i < kLanes; ++i) most = value[i] > most ? value[i] : most;
  return most;
#endif
}

}  // namespace
}  // namespace paceline
