// From a codec of one block to one of a range: what all codecs share.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// A block codec is a type with
//   Element                                             BFloat16 or float, what it encodes
//   encode_block(in, elements, out) -> bytes            of at most kCodecBlock elements
//   decode_block<Sink>(in, bytes, out, elements) -> bytes read from `in`, where `bytes` lie; 0 if they are no block
#pragma once

#include <cstddef>
#include <cstring>

#include "codec/codec.hpp"
#include "codec/kernels.hpp"
#include "codec/residual.hpp"
#include "codec/vectors.hpp"

namespace paceline {
namespace {

inline std::size_t block_at(std::size_t first, std::size_t elements) {
  return elements - first < kCodecBlock ? elements - first : kCodecBlock;
}

template <typename C>
std::size_t encode_range(const std::byte* in, std::size_t elements, std::byte* out) noexcept {
  std::byte* const begin = out;
  for (std::size_t first = 0; first < elements; first += kCodecBlock)
    out += C::encode_block(in + first * sizeof(typename C::Element), block_at(first, elements), out);
  return static_cast<std::size_t>(out - begin);
}

template <typename C, typename Sink>
bool decode_range(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) noexcept {
  for (std::size_t first = 0; first < elements; first += kCodecBlock) {
    const std::size_t n = block_at(first, elements);
    const std::size_t read = C::template decode_block<Sink>(in, bytes, out + first * sizeof(typename C::Element), n);
    if (read == 0) return false;
    in += read;
    bytes -= read;
  }
  return bytes == 0;
}

template <typename C>
std::size_t encode_range_with_residual(const std::byte* in, std::byte* residual, std::size_t elements,
                                       std::byte* out) noexcept {
  std::byte* const begin = out;
  for (std::size_t first = 0; first < elements; first += kCodecBlock) {
    const std::size_t n = block_at(first, elements);
    float wanted[kCodecBlock];
    float decoded[kCodecBlock];
    auto* const as_bytes = reinterpret_cast<std::byte*>(wanted);
    std::memcpy(wanted, in + first * sizeof(float), n * sizeof(float));
    for (std::size_t i = 0; i < n; ++i) wanted[i] += load_one(residual + (first + i) * sizeof(float));
    const std::size_t written = C::encode_block(as_bytes, n, out);
    C::template decode_block<Store>(out, written, reinterpret_cast<std::byte*>(decoded), n);
    for (std::size_t i = 0; i < n; ++i) wanted[i] = lost(wanted[i], decoded[i]);
    std::memcpy(residual + first * sizeof(float), wanted, n * sizeof(float));
    out += written;
  }
  return static_cast<std::size_t>(out - begin);
}

template <typename C>
CodecFunctions functions() {
  CodecFunctions all{encode_range<C>, nullptr, decode_range<C, Store>, decode_range<C, Add>};
  if constexpr (sizeof(typename C::Element) == sizeof(float)) all.encode_with_residual = encode_range_with_residual<C>;
  return all;
}

}  // namespace
}  // namespace paceline
