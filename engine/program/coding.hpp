// How messages between machines are encoded, for lowering.
#pragma once

#include <cstddef>
#include <span>

#include "codec/codec.hpp"

namespace paceline {

struct Coding {
  Codec codec = Codec::none;
  std::span<const int> machines;  // of every rank: those with equal numbers share one
  std::byte* residual = nullptr;  // float32, as many as the data: what encoding has lost so far; null: it is lost

  bool encodes() const { return codec != Codec::none; }
  bool crosses(int from, int to) const {
    return encodes() && machines[static_cast<std::size_t>(from)] != machines[static_cast<std::size_t>(to)];
  }
  // The bytes between machines that so many become, more or less: float32 unless it is `lossless`.
  std::size_t carried(std::size_t bytes) const {
    switch (codec) {
      case Codec::none:
      case Codec::lossless: return bytes;
      case Codec::three_in_one: return bytes / 3;
      default: return encoded_bound(codec, DType::float32, bytes / size_of(DType::float32));
    }
  }
  // The residual of what lies `offset` bytes from the beginning of the data.
  std::byte* residual_at(std::size_t offset) const { return residual != nullptr ? residual + offset : nullptr; }
};

}  // namespace paceline
