// The codecs bf16 and fp16: the bytes of engine/codec/halves.hpp.
#pragma once

#include <type_traits>

#include "device/kernels/code/sinks.hpp"
#include "device/kernels/launch.hpp"
#include "kernel/half.hpp"

namespace paceline::device {

// The floats of a vector of halves.
struct Floats {
  Vector low;
  Vector high;
};

template <unsigned kLanes>
PACELINE_DEVICE Pack<float, kLanes> load_floats(const std::byte* from) {
  if constexpr (kLanes == 1)
    return load<float, 1>(from);
  else
    return __builtin_bit_cast(Pack<float, kLanes>, Floats{*reinterpret_cast<const Vector*>(from),
                                                          *reinterpret_cast<const Vector*>(from + kVector)});
}

template <unsigned kLanes>
PACELINE_DEVICE void store_floats(std::byte* to, Pack<float, kLanes> pack) {
  if constexpr (kLanes == 1) {
    store(to, pack);
  } else {
    const auto floats = __builtin_bit_cast(Floats, pack);
    *reinterpret_cast<Vector*>(to) = floats.low;
    *reinterpret_cast<Vector*>(to + kVector) = floats.high;
  }
}

// Whether floats are at a multiple of 16 bytes wherever the halves of the same elements are.
PACELINE_DEVICE bool in_step(const std::byte* floats, const std::byte* halves) {
  return (misalignment(floats, kVector) - 2 * misalignment(halves, kVector)) % kVector == 0;
}

template <typename Half>
struct EncodeHalves {
  const EncodeParameters& p;

  template <unsigned kLanes>
  PACELINE_DEVICE void at(std::uint64_t first) const {
    Pack<float, kLanes> value = load_floats<kLanes>(p.in + first * sizeof(float));
    if (p.residual != nullptr) {
      const auto residual = load_floats<kLanes>(p.residual + first * sizeof(float));
      PACELINE_UNROLL
      for (unsigned i = 0; i < kLanes; ++i) value.element[i] += residual.element[i];
    }
    Pack<Half, kLanes> out;
    PACELINE_UNROLL
    for (unsigned i = 0; i < kLanes; ++i) out.element[i] = narrow_to(value.element[i], Half{});
    store(p.out + first * sizeof(Half), out);
    if (p.residual == nullptr) return;
    PACELINE_UNROLL
    for (unsigned i = 0; i < kLanes; ++i) value.element[i] = lost(value.element[i], widen(out.element[i]));
    store_floats<kLanes>(p.residual + first * sizeof(float), value);
  }
};

template <typename Half>
PACELINE_DEVICE void encode_halves(const EncodeParameters& p) {
  const bool congruent = in_step(p.in, p.out) && (p.residual == nullptr || in_step(p.residual, p.out));
  for_elements<Half>(p.elements, p.out, congruent, EncodeHalves<Half>{p});
}

template <typename Half, typename Sink>
struct DecodeHalves {
  const DecodeParameters& p;

  template <unsigned kLanes>
  PACELINE_DEVICE void at(std::uint64_t first) const {
    const Pack<Half, kLanes> in = load<Half, kLanes>(p.in + first * sizeof(Half));
    std::byte* const to = p.out + first * sizeof(float);
    Pack<float, kLanes> value;
    PACELINE_UNROLL
    for (unsigned i = 0; i < kLanes; ++i) value.element[i] = widen(in.element[i]);
    if constexpr (std::is_same_v<Sink, Add>) {
      const Pack<float, kLanes> before = load_floats<kLanes>(to);
      PACELINE_UNROLL
      for (unsigned i = 0; i < kLanes; ++i) value.element[i] = before.element[i] + value.element[i];
    }
    store_floats<kLanes>(to, value);
  }
};

template <typename Half, typename Sink>
PACELINE_DEVICE void decode_halves(const DecodeParameters& p) {
  for_elements<Half>(p.elements, p.in, in_step(p.out, p.in), DecodeHalves<Half, Sink>{p});
}

}  // namespace paceline::device
