// How many bytes a block takes once it is encoded.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>

#include "codec/codec.hpp"

namespace paceline {
namespace {

// Bytes of a block of at most kCodecBlock elements: exactly where the size is fixed, else at the most.
[[maybe_unused]] constexpr std::size_t block_bound(Codec codec, std::size_t element_size, std::size_t elements) {
  switch (codec) {
    case Codec::bf16:
    case Codec::fp16: return 2 * elements;
    default: return element_size * elements;
  }
}

}  // namespace
}  // namespace paceline
