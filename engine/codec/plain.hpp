// none: elements as they are. Other codecs use it for blocks that would not become smaller.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstring>

#include "codec/vectors.hpp"

namespace paceline {
namespace {

template <typename T>
struct Plain {
  using Element = T;

  static std::size_t encode_block(const std::byte* in, std::size_t elements, std::byte* out) {
    std::memcpy(out, in, elements * sizeof(T));
    return elements * sizeof(T);
  }

  template <typename Sink>
  static std::size_t decode_block(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) {
    if (bytes < elements * sizeof(T)) return 0;
    put(in, out, elements, Sink{}, T{});
    return elements * sizeof(T);
  }

 private:
  static void put(const std::byte* in, std::byte* out, std::size_t elements, Store, T) {
    std::memcpy(out, in, elements * sizeof(T));
  }
  static void put(const std::byte* in, std::byte* out, std::size_t elements, Add, float) {
    std::size_t i = 0;
    for (; i + kLanes <= elements; i += kLanes) Add::put(out + i * sizeof(float), load(in + i * sizeof(float)));
    for (; i < elements; ++i) Add::put(out + i * sizeof(float), load_one(in + i * sizeof(float)));
  }
  static void put(const std::byte* in, std::byte* out, std::size_t elements, Add, BFloat16 half) {
    for (std::size_t i = 0; i < elements; ++i) {
      auto* const to = reinterpret_cast<unsigned char*>(out + i * sizeof half);
      float sum = 0;
      float term = 0;
      widen(to, half, sum);
      widen(reinterpret_cast<const unsigned char*>(in + i * sizeof half), half, term);
      narrow(sum + term, to, half);
    }
  }
};

}  // namespace
}  // namespace paceline
