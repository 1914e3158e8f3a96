// Copies whose stores go around the caches (non-temporal stores), if the processor has such stores. ThreadSanitizer
// does not see them, so it gets plain ones.
#pragma once

#include <cstddef>
#include <cstring>

#include "memory/cache.hpp"

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#endif

namespace paceline {

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool kStreams = true;

// Copies `lines` cache lines to `to`, which is aligned to one. Other cores see later stores after these, as they do
// with a plain copy.
inline void stream_lines(std::byte* to, const std::byte* from, std::size_t lines) {
  constexpr std::size_t kPart = sizeof(__m128i);
  for (std::size_t at = 0; at < lines * kCacheLine; at += kPart)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  _mm_sfence();
}
#else
inline constexpr bool kStreams = false;

inline void stream_lines(std::byte* to, const std::byte* from, std::size_t lines) {
  std::memcpy(to, from, lines * kCacheLine);
}
#endif

}  // namespace paceline
