// Where decoded float32 go, and what is encoded: an element, or its sum with what was lost of the last one.
#pragma once

#include "codec/residual.hpp"
#include "device/kernels/code/memory.hpp"

namespace paceline::device {

struct Store {
  PACELINE_DEVICE static float result(const std::byte*, float decoded) { return decoded; }
};
struct Add {
  PACELINE_DEVICE static float result(const std::byte* at, float decoded) { return load_element<float>(at) + decoded; }
};

template <typename Sink>
PACELINE_DEVICE void put(std::byte* out, std::uint64_t index, float decoded) {
  std::byte* const at = out + index * sizeof(float);
  store_element(at, Sink::result(at, decoded));
}

PACELINE_DEVICE float wanted(const std::byte* in, const std::byte* residual, std::uint64_t index) {
  const float value = load_element<float>(in + index * sizeof(float));
  return residual == nullptr ? value : value + load_element<float>(residual + index * sizeof(float));
}

PACELINE_DEVICE void keep_lost(std::byte* residual, std::uint64_t index, float wanted, float decoded) {
  if (residual != nullptr) store_element(residual + index * sizeof(float), lost(wanted, decoded));
}

}  // namespace paceline::device
