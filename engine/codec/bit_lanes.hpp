// Codes of a block's exponents as 16 streams of bits, which share one list of 16-bit words.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// Elements 2j and 2j + 1 of every 32 belong to lane j. A lane holds from 17 to 32 bits. To decode two elements takes at
// most 14 of them; then each lane that holds no more than 16 takes the last word of the list, the lower lanes first.
// Encoding is the exact inverse, from the last elements to the first, and so knows when words will be taken: it puts a
// pair's bits before those that a lane holds, and where there would be more than 32 it first gives a word to the list.
// (Interleaved entropy coders: F. Giesen, arXiv:1402.3392.) Escaped exponents are a list of the same kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/prefix_code.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace paceline {
namespace {

constexpr std::size_t kStreams = 16;
constexpr std::size_t kStep = 2 * kStreams;  // elements
constexpr std::size_t kWordBits = 16;        // of the list's words
constexpr std::uint32_t kLeastBits = 17;     // in a lane
constexpr std::uint32_t kMostHeld = 32;
// Bytes that are read before the beginning of the list, and written beyond its end, though not used.
constexpr std::size_t kSlack = kStreams * sizeof(std::uint16_t);

// What lanes hold: the next bit is the highest.
struct LaneState {
  std::uint32_t bits[kStreams];
  std::uint8_t count[kStreams];
};

// What the lanes of a block become.
struct Coded {
  LaneState state;
  std::size_t list_bytes;
  std::size_t escapes;
};

// What decoding reads: lists from their ends.
struct Lists {
  const std::byte* words;
  const std::byte* words_end;
  const std::byte* escapes;
  const std::byte* escapes_end;
  std::uint8_t escape;  // the symbol of all that are in the list of escapes
};

#if defined(__AVX512F__)

// table[index] in every 16-bit lane, of 64 entries.
inline __m512i look_up(const std::uint16_t* table, __m512i index) {
  return _mm512_permutex2var_epi16(_mm512_loadu_si512(table), index, _mm512_loadu_si512(table + 32));
}

inline Coded encode_lanes(const std::uint8_t* exponents, std::size_t steps, const std::uint16_t* table, std::byte* list,
                          std::uint8_t* escapes) {
  const __m512i low_word = _mm512_set1_epi32(0xffff);
  const __m512i code_bits = _mm512_set1_epi32(0x7f);
  const __m512i length_bits = _mm512_set1_epi32(0x0f);
  // The higher lanes stand first here, because the lower ones take their words first, from the end.
  const __m512i turned = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i bits = _mm512_setzero_si512();
  __m512i count = _mm512_set1_epi32(kLeastBits);
  std::byte* out = list;
  std::uint8_t* escaped = escapes;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const from = exponents + step * kStep;
    const __m512i symbols = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    const __mmask32 upper_64 = _mm512_test_epi16_mask(symbols, _mm512_set1_epi16(64));
    const __mmask32 upper_128 = _mm512_test_epi16_mask(symbols, _mm512_set1_epi16(128));
    __m512i entries = look_up(table + 64, symbols);
    // Magnitudes from 2^-63 to 2, which is most often all of them, take the look-up above alone.
    if ((~upper_64 | upper_128) != 0) {
      const __m512i lower = _mm512_mask_blend_epi16(upper_64, look_up(table, symbols), entries);
      const __m512i upper =
          _mm512_mask_blend_epi16(upper_64, look_up(table + 128, symbols), look_up(table + 192, symbols));
      entries = _mm512_mask_blend_epi16(upper_128, lower, upper);
    }
    for (auto which = static_cast<std::uint32_t>(_mm512_movepi16_mask(entries)); which != 0;) {
      const int last = 31 - __builtin_clz(which);
      *escaped++ = from[last];
      which ^= 1U << last;
    }
    entries = _mm512_permutexvar_epi32(turned, entries);
    const __m512i first = _mm512_and_si512(entries, low_word);
    const __m512i second = _mm512_srli_epi32(entries, 16);
    const __m512i second_length = _mm512_and_si512(second, length_bits);
    const __m512i length = _mm512_add_epi32(_mm512_and_si512(first, length_bits), second_length);
    const __m512i code =
        _mm512_or_si512(_mm512_sllv_epi32(_mm512_and_si512(_mm512_srli_epi32(first, 8), code_bits), second_length),
                        _mm512_and_si512(_mm512_srli_epi32(second, 8), code_bits));
    const __mmask16 full = _mm512_cmpgt_epi32_mask(_mm512_add_epi32(count, length), _mm512_set1_epi32(kMostHeld));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, bits)));
    out += sizeof(std::uint16_t) * static_cast<std::size_t>(__builtin_popcount(full));
    bits = _mm512_mask_srli_epi32(bits, full, bits, kWordBits);
    count = _mm512_mask_sub_epi32(count, full, count, _mm512_set1_epi32(kWordBits));
    bits = _mm512_or_si512(bits, _mm512_sllv_epi32(code, count));
    count = _mm512_add_epi32(count, length);
  }
  bits = _mm512_sllv_epi32(bits, _mm512_sub_epi32(_mm512_set1_epi32(kMostHeld), count));
  Coded coded;
  _mm512_storeu_si512(coded.state.bits, _mm512_permutexvar_epi32(turned, bits));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(coded.state.count),
                   _mm512_cvtepi32_epi8(_mm512_permutexvar_epi32(turned, count)));
  coded.list_bytes = static_cast<std::size_t>(out - list);
  coded.escapes = static_cast<std::size_t>(escaped - escapes);
  return coded;
}

inline bool decode_lanes(const LaneState& state, const std::uint16_t* table, Lists lists, std::size_t steps,
                         std::uint8_t* exponents) {
  const __m512i low_byte = _mm512_set1_epi32(0xff);
  const __m512i length_bits = _mm512_set1_epi32(0x0f);
  const __m512i least = _mm512_set1_epi32(kLeastBits);
  const __m512i escape = _mm512_set1_epi16(lists.escapes == lists.escapes_end ? -1 : lists.escape);
  const __m256i turned = _mm256_set_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i table0 = _mm512_loadu_si512(table);
  const __m512i table1 = _mm512_loadu_si512(table + 32);
  const __m512i table2 = _mm512_loadu_si512(table + 64);
  const __m512i table3 = _mm512_loadu_si512(table + 96);
  __m512i bits = _mm512_loadu_si512(state.bits);
  __m512i count = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state.count)));
  const std::byte* in = lists.words_end;
  const std::byte* escaped = lists.escapes_end;
  for (std::size_t step = 0; step < steps; ++step) {
    // The next words are read before it is known how many are wanted: that would be waited for.
    const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in - kSlack));
    const __m512i next = _mm512_cvtepu16_epi32(_mm256_permutexvar_epi16(turned, last));
    __m512i symbols = _mm512_setzero_si512();
    for (const int shift : {0, 16}) {
      const __m512i index = _mm512_srli_epi32(bits, 32 - kMostBits);
      const __mmask16 upper = _mm512_movepi32_mask(bits);
      const __m512i entry = _mm512_mask_blend_epi32(upper, _mm512_permutex2var_epi16(table0, index, table1),
                                                    _mm512_permutex2var_epi16(table2, index, table3));
      const __m512i length = _mm512_and_si512(entry, length_bits);
      bits = _mm512_sllv_epi32(bits, length);
      count = _mm512_sub_epi32(count, length);
      symbols =
          _mm512_or_si512(symbols, _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(entry, 8), low_byte), shift));
    }
    std::uint8_t* const to = exponents + step * kStep;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(symbols));
    for (auto which = static_cast<std::uint32_t>(_mm512_cmpeq_epi16_mask(symbols, escape)); which != 0;
         which &= which - 1) {
      if (escaped == lists.escapes) return false;
      to[__builtin_ctz(which)] = static_cast<std::uint8_t>(*--escaped);
    }
    const __mmask16 wanting = _mm512_cmplt_epi32_mask(count, least);
    const std::size_t bytes = sizeof(std::uint16_t) * static_cast<std::size_t>(__builtin_popcount(wanting));
    if (static_cast<std::size_t>(in - lists.words) < bytes) return false;
    in -= bytes;
    const __m512i words = _mm512_maskz_expand_epi32(wanting, next);
    bits = _mm512_or_si512(bits, _mm512_sllv_epi32(words, _mm512_sub_epi32(_mm512_set1_epi32(kWordBits), count)));
    count = _mm512_mask_add_epi32(count, wanting, count, _mm512_set1_epi32(kWordBits));
  }
  const bool rested = _mm512_test_epi32_mask(bits, bits) == 0 && _mm512_cmpneq_epi32_mask(count, least) == 0;
  return rested && in == lists.words && escaped == lists.escapes;
}

#else

inline Coded encode_lanes(const std::uint8_t* exponents, std::size_t steps, const std::uint16_t* table, std::byte* list,
                          std::uint8_t* escapes) {
  std::uint32_t bits[kStreams] = {};
  std::uint32_t count[kStreams];
  for (std::uint32_t& each : count) each = kLeastBits;
  std::byte* out = list;
  std::uint8_t* escaped = escapes;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const from = exponents + step * kStep;
    for (std::size_t i = kStep; i-- > 0;)
      if ((table[from[i]] & kEscaped) != 0) *escaped++ = from[i];
    std::uint32_t code[kStreams];
    std::uint32_t length[kStreams];
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      const std::uint32_t first = table[from[2 * lane]];
      const std::uint32_t second = table[from[2 * lane + 1]];
      code[lane] = (first >> 8 & 0x7fU) << (second & 0x0fU) | (second >> 8 & 0x7fU);
      length[lane] = (first & 0x0fU) + (second & 0x0fU);
    }
    for (std::size_t lane = kStreams; lane-- > 0;) {
      const bool full = count[lane] + length[lane] > kMostHeld;
      const auto word = static_cast<std::uint16_t>(bits[lane]);
      std::memcpy(out, &word, sizeof word);
      out += full ? sizeof word : 0;
    }
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      const std::uint32_t given = count[lane] + length[lane] > kMostHeld ? kWordBits : 0;
      bits[lane] >>= given;
      count[lane] -= given;
      bits[lane] |= code[lane] << count[lane];
      count[lane] += length[lane];
    }
  }
  Coded coded;
  for (std::size_t lane = 0; lane < kStreams; ++lane) {
    coded.state.bits[lane] = bits[lane] << (kMostHeld - count[lane]);
    coded.state.count[lane] = static_cast<std::uint8_t>(count[lane]);
  }
  coded.list_bytes = static_cast<std::size_t>(out - list);
  coded.escapes = static_cast<std::size_t>(escaped - escapes);
  return coded;
}

inline bool decode_lanes(const LaneState& state, const std::uint16_t* table, Lists lists, std::size_t steps,
                         std::uint8_t* exponents) {
  std::uint32_t bits[kStreams];
  std::uint32_t count[kStreams];
  for (std::size_t lane = 0; lane < kStreams; ++lane) {
    bits[lane] = state.bits[lane];
    count[lane] = state.count[lane];
  }
  const std::byte* in = lists.words_end;
  const std::byte* escaped = lists.escapes_end;
  const int escape = lists.escapes == lists.escapes_end ? -1 : lists.escape;
  for (std::size_t step = 0; step < steps; ++step) {
    std::uint8_t* const to = exponents + step * kStep;
    std::size_t wanting = 0;
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::uint32_t entry = table[bits[lane] >> (32 - kMostBits)];
        to[2 * lane + i] = static_cast<std::uint8_t>(entry >> 8);
        bits[lane] <<= entry & 0x0fU;
        count[lane] -= entry & 0x0fU;
      }
      wanting += count[lane] < kLeastBits ? 1 : 0;
    }
    for (std::size_t i = 0; i < kStep; ++i) {
      if (to[i] != escape) continue;
      if (escaped == lists.escapes) return false;
      to[i] = static_cast<std::uint8_t>(*--escaped);
    }
    if (static_cast<std::size_t>(in - lists.words) < wanting * sizeof(std::uint16_t)) return false;
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      const bool wants = count[lane] < kLeastBits;
      std::uint16_t word;
      std::memcpy(&word, in - sizeof word, sizeof word);
      in -= wants ? sizeof word : 0;
      bits[lane] |= wants ? static_cast<std::uint32_t>(word) << (kWordBits - count[lane]) : 0;
      count[lane] += wants ? kWordBits : 0;
    }
  }
  std::uint32_t left = 0;
  for (std::size_t lane = 0; lane < kStreams; ++lane) left |= bits[lane] | (count[lane] ^ kLeastBits);
  return left == 0 && in == lists.words && escaped == lists.escapes;
}

#endif

}  // namespace
}  // namespace paceline
