// Three values in a 32-bit word (ScaleDNN, section on parameter compression), for what lies between -2 and 2.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// A value is a sign, the lower 4 bits of its exponent and 5 bits of mantissa. The three values of a word share the
// upper 4 bits of the exponent: 0111, for magnitudes in [2^-15, 2), as soon as one of them is that large; else 0110,
// for [2^-31, 2^-15). The smallest value of each range stands for zero. Each value is rounded to the nearest that the
// word can hold, so that small neighbours of larger ones may become zero. The paper's own rule decodes such words
// wrongly, and says nothing of zero, of 2 and above, of infinities and of NaN: here the word's spare bit says that the
// three values follow, as they were, in a list behind all words of the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/plain.hpp"
#include "codec/varying.hpp"
#include "codec/vectors.hpp"

namespace paceline {
namespace {

struct ThreeInOne {
  using Element = float;

  static std::size_t encode_block(const std::byte* in, std::size_t elements, std::byte* out) {
    std::byte* const words = out + kHeader;
    const std::size_t count = (elements + kRows - 1) / kRows;
    LaneBits any = {};
    std::size_t done = 0;
    for (; done + kWidth <= count && (done + kWidth) * kRows <= elements; done += kWidth)
      any |= encode_tile(in + done * kRows * sizeof(float), words + done * kWord);
    if (const std::size_t width = count - done; width > 0) {
      std::byte padded[kTile * sizeof(float)] = {};
      std::byte encoded[kWidth * kWord];
      for (std::size_t i = 0; i < elements - done * kRows; ++i)
        std::memcpy(padded + (i / width * kWidth + i % width) * sizeof(float), in + (done * kRows + i) * sizeof(float),
                    sizeof(float));
      any |= encode_tile(padded, encoded);
      std::memcpy(words + done * kWord, encoded, width * kWord);
    }
    std::size_t bytes = count * kWord;
    if (any_escape(any)) {
      for (std::size_t word = 0; word < count; ++word) {
        if ((word_at(words, word) & kEscape) == 0) continue;
        if (bytes + kRows * sizeof(float) > elements * sizeof(float))
          return store_block(in, elements * sizeof(float), out);
        for (std::size_t row = 0; row < kRows; ++row, bytes += sizeof(float)) {
          const std::size_t place = place_of(word, row, elements);
          const float value = place < elements ? load_one(in + place * sizeof(float)) : 0;
          std::memcpy(words + bytes, &value, sizeof value);
        }
      }
    }
    return write_header(out, bytes);
  }

  template <typename Sink>
  static std::size_t decode_block(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) {
    const Payload payload = payload_of(in, bytes);
    if (payload.data == nullptr) return 0;
    const std::byte* const words = payload.data;
    if (payload.stored) {
      if (payload.bytes != elements * sizeof(float)) return 0;
      Plain<float>::decode_block<Sink>(words, payload.bytes, out, elements);
      return kHeader + payload.bytes;
    }
    const std::size_t count = (elements + kRows - 1) / kRows;
    if (payload.bytes < count * kWord) return 0;
    LaneBits any = {};
    std::size_t done = 0;
    for (; done + kWidth <= count && (done + kWidth) * kRows <= elements; done += kWidth)
      any |= decode_tile<Sink>(words + done * kWord, out + done * kRows * sizeof(float));
    if (const std::size_t width = count - done; width > 0) {
      std::byte encoded[kWidth * kWord] = {};
      std::byte padded[kTile * sizeof(float)];
      std::memcpy(encoded, words + done * kWord, width * kWord);
      any |= decode_tile<Store>(encoded, padded);
      for (std::size_t i = 0; i < elements - done * kRows; ++i)
        Sink::put(out + (done * kRows + i) * sizeof(float),
                  load_one(padded + (i / width * kWidth + i % width) * sizeof(float)));
    }
    std::size_t read = count * kWord;
    if (any_escape(any)) {
      for (std::size_t word = 0; word < count; ++word) {
        if ((word_at(words, word) & kEscape) == 0) continue;
        // It was decoded as three negative zeros, to which the list's values may be added: they change none, not even
        // 0.
        if (word_at(words, word) != kEscaped || payload.bytes - read < kRows * sizeof(float)) return 0;
        for (std::size_t row = 0; row < kRows; ++row, read += sizeof(float)) {
          const std::size_t place = place_of(word, row, elements);
          if (place < elements) Sink::put(out + place * sizeof(float), load_one(words + read));
        }
      }
    }
    return read == payload.bytes ? kHeader + payload.bytes : 0;
  }

 private:
  // A tile is three rows of elements; the word in each column holds what stands there. The last tile of a block may
  // be narrower.
  static constexpr std::size_t kRows = 3;
  static constexpr std::size_t kWidth = 16;
  static constexpr std::size_t kTile = kRows * kWidth;
  static constexpr std::size_t kWord = sizeof(std::uint32_t);
  static constexpr std::uint32_t kEscape = 1U << 31;
  static constexpr int kUpper = 30;  // the bit that says 0111
  static constexpr int kValueBits = 10;
  static constexpr int kSign = 9;  // the bit of a value
  static constexpr std::uint32_t kEscaped =
      kEscape | 1U << kSign | 1U << (kSign + kValueBits) | 1U << (kSign + 2 * kValueBits);
  static constexpr int kDropped = 18;  // the bits of a float32's mantissa that go
  // Exponent and mantissa, with 5 bits, of the smallest value of each range, and of what is too large.
  static constexpr std::int32_t kLower0110 = 0b01100000 << 5;
  static constexpr std::int32_t kLower0111 = 0b01110000 << 5;
  static constexpr std::int32_t kTooLarge = 0b10000000 << 5;
  static constexpr std::int32_t kExponentOne = 1 << 5;

  static std::uint32_t word_at(const std::byte* words, std::size_t index) {
    std::uint32_t word;
    std::memcpy(&word, words + index * kWord, sizeof word);
    return word;
  }

  static bool any_escape(LaneBits words) {
    std::uint32_t all = 0;
    for (std::size_t i = 0; i < kLanes; ++i) all |= words[i];
    return (all & kEscape) != 0;
  }

  // The element of a block that stands in this row of this word.
  static std::size_t place_of(std::size_t word, std::size_t row, std::size_t elements) {
    const std::size_t tile = word / kWidth;
    const std::size_t left = elements - tile * kTile;
    const std::size_t width = left < kTile ? (left + kRows - 1) / kRows : kWidth;
    return tile * kTile + row * width + word % kWidth;
  }

  static LaneBits encode_tile(const std::byte* in, std::byte* words) {
    LaneBits any = {};
    for (std::size_t i = 0; i < kWidth; i += kLanes) {
      LaneBits bits[kRows];
      LaneInts rounded[kRows];
      for (std::size_t row = 0; row < kRows; ++row) {
        bits[row] = LaneBits(load(in + (row * kWidth + i) * sizeof(float)));
        const LaneBits magnitude = bits[row] & 0x7fffffffU;
        rounded[row] = LaneInts((magnitude + 0x1ffffU + ((magnitude >> kDropped) & 1U)) >> kDropped);
      }
      LaneInts most = rounded[0] > rounded[1] ? rounded[0] : rounded[1];
      most = rounded[2] > most ? rounded[2] : most;
      const LaneInts none = most - most;
      const LaneInts lower = most >= kLower0111 ? none + kLower0111 : none + kLower0110;
      const LaneInts half = (lower - kExponentOne + 1) << kDropped;  // of the smallest value that is not zero
      LaneInts word = most >= kLower0111 ? none + (1 << kUpper) : none;
      for (std::size_t row = 0; row < kRows; ++row) {
        const LaneInts smallest = LaneInts(bits[row] & 0x7fffffffU) > half ? none + 1 : none;
        const LaneInts above = rounded[row] - lower;
        const LaneInts value = above > smallest ? above : smallest;
        word |= (value | LaneInts(bits[row] >> 31 << kSign)) << static_cast<int>(row * kValueBits);
      }
      const LaneBits result = most >= kTooLarge ? LaneBits(none) + kEscaped : LaneBits(word);
      any |= result;
      std::memcpy(words + i * kWord, &result, sizeof result);
    }
    return any;
  }

  template <typename Sink>
  static LaneBits decode_tile(const std::byte* words, std::byte* out) {
    LaneBits any = {};
    for (std::size_t i = 0; i < kWidth; i += kLanes) {
      LaneBits word;
      std::memcpy(&word, words + i * kWord, sizeof word);
      any |= word;
      const LaneBits none = word - word;
      const LaneBits lower = (word >> kUpper & 1U) * static_cast<std::uint32_t>(kLower0111 - kLower0110) +
                             static_cast<std::uint32_t>(kLower0110);
      for (std::size_t row = 0; row < kRows; ++row) {
        const LaneBits value = word >> static_cast<int>(row * kValueBits);
        const LaneBits above = value & ((1U << kSign) - 1);
        const LaneBits magnitude = above == 0U ? none : (above + lower) << kDropped;
        Sink::put(out + (row * kWidth + i) * sizeof(float), Lanes(magnitude | (value >> kSign & 1U) << 31));
      }
    }
    return any;
  }
};

}  // namespace
}  // namespace paceline
