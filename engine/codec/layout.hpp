// How many bytes a block takes once it is encoded.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/codec.hpp"

namespace paceline {
namespace {

constexpr std::size_t kScaleGroup = 128;  // elements that share a scale in int8 and int4

// Bytes of a block of at most kCodecBlock elements: exactly where the size is fixed, else at the most.
[[maybe_unused]] constexpr std::size_t block_bound(Codec codec, std::size_t element_size, std::size_t elements) {
  switch (codec) {
    case Codec::bf16:
    case Codec::fp16: return 2 * elements;
    case Codec::int8: return elements + (elements + kScaleGroup - 1) / kScaleGroup * sizeof(float);
    case Codec::int4: return (elements + 1) / 2 + (elements + kScaleGroup - 1) / kScaleGroup * sizeof(float);
    case Codec::three_in_one:
    case Codec::lossless: return elements == 0 ? 0 : sizeof(std::uint32_t) + element_size * elements;
    case Codec::none: break;
  }
  return element_size * elements;
}

}  // namespace
}  // namespace paceline
