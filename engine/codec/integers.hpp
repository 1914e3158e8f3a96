// int8 and int4: groups of 128 elements, each with a scale of its own and the elements as whole multiples of it.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// A group is its scale in float32 and then its multiples, from -127 to 127 or from -7 to 7 in two's complement. Of two
// int4 in a byte the lower half of the group is the lower half of the byte. The scale is the largest magnitude divided
// by 127 or 7, rounded up to 16 significant bits: so multiples are exact in float32, and decoded elements encode to the
// same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/layout.hpp"
#include "codec/scale.hpp"
#include "codec/vectors.hpp"

namespace paceline {
namespace {

template <Codec kCodec, int kBits>
struct Integers {
  using Element = float;

  static std::size_t encode_block(const std::byte* in, std::size_t elements, std::byte* out) {
    std::byte* const begin = out;
    for (; elements >= kGroup; elements -= kGroup, in += kGroup * sizeof(float)) out += encode_group(in, out);
    if (elements > 0) {
      std::byte padded[kGroup * sizeof(float)] = {};
      std::byte encoded[kEncoded];
      const std::size_t width = width_of(elements);
      for (std::size_t row = 0; row < kRows; ++row)
        std::memcpy(padded + row * kWidth * sizeof(float), in + row * width * sizeof(float),
                    in_row(row, width, elements) * sizeof(float));
      encode_group(padded, encoded);
      std::memcpy(out, encoded, sizeof(float) + width);
      out += sizeof(float) + width;
    }
    return static_cast<std::size_t>(out - begin);
  }

  template <typename Sink>
  static std::size_t decode_block(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) {
    const std::size_t all = block_bound(kCodec, sizeof(float), elements);
    if (bytes < all) return 0;
    for (; elements >= kGroup; elements -= kGroup, in += kEncoded, out += kGroup * sizeof(float))
      decode_group<Sink>(in, out);
    if (elements > 0) {
      std::byte encoded[kEncoded] = {};
      std::byte padded[kGroup * sizeof(float)];
      const std::size_t width = width_of(elements);
      std::memcpy(encoded, in, sizeof(float) + width);
      decode_group<Store>(encoded, padded);
      for (std::size_t row = 0; row < kRows; ++row)
        for (std::size_t i = 0; i < in_row(row, width, elements); ++i)
          Sink::put(out + (row * width + i) * sizeof(float), load_one(padded + (row * kWidth + i) * sizeof(float)));
    }
    return all;
  }

 private:
  static constexpr std::size_t kGroup = kScaleGroup;
  static constexpr int kMost = (1 << (kBits - 1)) - 1;
  static constexpr std::size_t kRows = 8 / kBits;  // elements that share a byte
  static constexpr std::size_t kWidth = kGroup / kRows;
  static constexpr std::size_t kEncoded = sizeof(float) + kWidth;

  static std::size_t width_of(std::size_t elements) { return (elements + kRows - 1) / kRows; }
  static std::size_t in_row(std::size_t row, std::size_t width, std::size_t elements) {
    const std::size_t left = elements - row * width;
    return left < width ? left : width;
  }

  static std::size_t encode_group(const std::byte* in, std::byte* out) {
    LaneInts most = LaneInts(load(in)) & 0x7fffffff;
    for (std::size_t i = kLanes; i < kGroup; i += kLanes) {
      const LaneInts magnitude = LaneInts(load(in + i * sizeof(float))) & 0x7fffffff;
      most = magnitude > most ? magnitude : most;
    }
    const Scale scale = scale_of<kMost>(largest(most));
    std::memcpy(out, &scale.value, sizeof scale.value);
    out += sizeof scale.value;
    if (scale.inverse == 0) {
      std::memset(out, 0, kWidth);
      return kEncoded;
    }
    for (std::size_t i = 0; i < kWidth; i += kLanes) {
      LaneInts byte = {};
      for (std::size_t row = 0; row < kRows; ++row) {
        const Lanes value = load(in + (row * kWidth + i) * sizeof(float)) * scale.inverse + kRound;
        byte |= (LaneInts(value) & ((1 << kBits) - 1)) << static_cast<int>(row * kBits);
      }
      store_low_bytes(byte, out + i);
    }
    return kEncoded;
  }

  template <typename Sink>
  static void decode_group(const std::byte* in, std::byte* out) {
    const float scale = load_one(in);
    in += sizeof scale;
    for (std::size_t i = 0; i < kWidth; i += kLanes) {
      const LaneInts byte = load_signed_bytes(in + i);
      for (std::size_t row = 0; row < kRows; ++row) {
        const LaneInts multiple = LaneInts(LaneBits(byte) << static_cast<int>(32 - (row + 1) * kBits)) >> (32 - kBits);
        Sink::put(out + (row * kWidth + i) * sizeof(float), __builtin_convertvector(multiple, Lanes) * scale);
      }
    }
  }
};

}  // namespace
}  // namespace paceline
