// The codecs that round every element to 16 bits: bf16 and fp16.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>

#include "codec/vectors.hpp"
#include "kernel/half_lanes.hpp"

namespace paceline {
namespace {

// Rounds to nearest even. A NaN stays a NaN, and infinities stay; what is too large for fp16 becomes infinite.
template <typename Half>
struct Halves {
  using Element = float;

  static std::size_t encode_block(const std::byte* in, std::size_t elements, std::byte* out) {
    auto* to = reinterpret_cast<unsigned char*>(out);
    std::size_t i = 0;
    for (; i + 2 * kLanes <= elements; i += 2 * kLanes) {
      const std::byte* const from = in + i * sizeof(float);
      narrow_two(load(from), load(from + sizeof(Lanes)), to + i * sizeof(Half), Half{});
    }
    for (; i + kLanes <= elements; i += kLanes) narrow(load(in + i * sizeof(float)), to + i * sizeof(Half), Half{});
    for (; i < elements; ++i) narrow(load_one(in + i * sizeof(float)), to + i * sizeof(Half), Half{});
    return elements * sizeof(Half);
  }

  template <typename Sink>
  static std::size_t decode_block(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) {
    if (bytes < elements * sizeof(Half)) return 0;
    const auto* from = reinterpret_cast<const unsigned char*>(in);
    std::size_t i = 0;
    for (; i + kLanes <= elements; i += kLanes) {
      Lanes value;
      widen(from + i * sizeof(Half), Half{}, value);
      Sink::put(out + i * sizeof(float), value);
    }
    for (; i < elements; ++i) {
      float value;
      widen(from + i * sizeof(Half), Half{}, value);
      Sink::put(out + i * sizeof(float), value);
    }
    return elements * sizeof(Half);
  }
};

}  // namespace
}  // namespace paceline
