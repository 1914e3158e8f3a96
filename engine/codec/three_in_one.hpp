// Three values in a 32-bit word (ScaleDNN, section on parameter compression), for what lies between -2 and 2.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// three_values.hpp says what a word holds. Escaped words are followed, behind all words of the block, by their values
// as they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/plain.hpp"
#include "codec/three_values.hpp"
#include "codec/varying.hpp"
#include "codec/vectors.hpp"

namespace paceline {
namespace {

struct ThreeInOne : ThreeValues {
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

  static LaneBits encode_tile(const std::byte* in, std::byte* words) {
    LaneBits any = {};
    for (std::size_t i = 0; i < kWidth; i += kLanes) {
      LaneBits bits[kRows];
      for (std::size_t row = 0; row < kRows; ++row) bits[row] = LaneBits(load(in + (row * kWidth + i) * sizeof(float)));
      const LaneBits result = word_of<LaneInts>(bits[0], bits[1], bits[2]);
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
      for (std::size_t row = 0; row < kRows; ++row)
        Sink::put(out + (row * kWidth + i) * sizeof(float), Lanes(value_of(word, row)));
    }
    return any;
  }
};

}  // namespace
}  // namespace paceline
