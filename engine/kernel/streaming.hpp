// Copies whose stores go around the caches (non-temporal stores), if the processor has such stores. ThreadSanitizer
// does not see them, so it gets plain ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Copies any bytes; the whole cache lines among those at `to` go around the caches.
inline void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  const std::size_t before = std::min(bytes, past == 0 ? 0 : kCacheLine - past);
  const std::size_t lines = (bytes - before) / kCacheLine;
  const std::size_t done = before + lines * kCacheLine;
  std::memcpy(to, from, before);
  std::memcpy(to + done, from + done, bytes - done);
  stream_lines(to + before, from + before, lines);
}

}  // namespace paceline
