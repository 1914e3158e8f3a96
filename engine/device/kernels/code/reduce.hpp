// Reductions, scaling and copies. Halves are combined in float32 and rounded once, as by engine/kernel.
#pragma once

#include <type_traits>

#include "device/kernels/code/memory.hpp"
#include "device/kernels/launch.hpp"
#include "kernel/half.hpp"
#include "kernel/operators.hpp"

namespace paceline::device {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// What elements are combined in.
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
PACELINE_DEVICE Wide<T> wide(T element) {
  if constexpr (kIsHalf<T>)
    return widen(element);
  else
    return element;
}

template <typename T>
PACELINE_DEVICE T narrow(Wide<T> value) {
  if constexpr (kIsHalf<T>)
    return narrow_to(value, T{});
  else
    return value;
}

// Integers are truncated towards zero.
template <typename T>
PACELINE_DEVICE T quotient(T value, double divisor) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(std::int32_t))
    return static_cast<T>(static_cast<std::int32_t>(value) / static_cast<std::int32_t>(divisor));
  else
    return value / static_cast<T>(divisor);
}

// Vectors that a thread loads before it waits for the first of them. All threads of a multiprocessor together have tens
// of kilobytes under way then, and the code stays short.
inline constexpr unsigned kUnderWay = 3;

template <typename T, typename F>
struct Reduction {
  const ReduceParameters& p;

  template <unsigned kLanes>
  PACELINE_DEVICE void at(std::uint64_t first) const {
    const std::uint64_t offset = first * sizeof(T);
    Pack<Wide<T>, kLanes> value = combined<kLanes>(offset);
    if (p.divisor != 1) {
      PACELINE_UNROLL
      for (unsigned i = 0; i < kLanes; ++i) value.element[i] = quotient(value.element[i], p.divisor);
    }
    Pack<T, kLanes> out;
    PACELINE_UNROLL
    for (unsigned i = 0; i < kLanes; ++i) out.element[i] = narrow<T>(value.element[i]);
    PACELINE_ROLLED
    for (unsigned k = 0; k < p.outputs; ++k) store(p.out[k] + offset, out);
  }

 private:
  template <unsigned kLanes>
  PACELINE_DEVICE Pack<Wide<T>, kLanes> combined(std::uint64_t offset) const {
    if constexpr (kLanes == 1) {  // few elements, or such as are loaded byte by byte: that code is long
      Wide<T> value = wide(load_element<T>(p.in[0] + offset));
      PACELINE_ROLLED
      for (unsigned k = 1; k < p.inputs; ++k) value = F::apply(value, wide(load_element<T>(p.in[k] + offset)));
      return {{value}};
    } else {
      Pack<Wide<T>, kLanes> value;
      const Pack<T, kLanes> begin = load<T, kLanes>(p.in[0] + offset);
      PACELINE_UNROLL
      for (unsigned i = 0; i < kLanes; ++i) value.element[i] = wide(begin.element[i]);
      PACELINE_ROLLED
      for (unsigned next = 1; next < p.inputs; next += kUnderWay) {
        Pack<T, kLanes> in[kUnderWay] = {};
        PACELINE_UNROLL
        for (unsigned k = 0; k < kUnderWay; ++k)
          if (next + k < p.inputs) in[k] = load<T, kLanes>(p.in[next + k] + offset);
        PACELINE_UNROLL
        for (unsigned k = 0; k < kUnderWay; ++k) {
          if (next + k >= p.inputs) continue;
          PACELINE_UNROLL
          for (unsigned i = 0; i < kLanes; ++i) value.element[i] = F::apply(value.element[i], wide(in[k].element[i]));
        }
      }
      return value;
    }
  }
};

// Returns the parameters of a kernel, or null if nothing of it is wanted any more.
template <typename Parameters>
PACELINE_DEVICE const Parameters* wanted(const Parameters& given) {
  const Later<Parameters>& later = given.later;
  if (later.parameters == nullptr) return &given;
  return *later.withdrawn == later.call ? nullptr : later.parameters;
}

template <typename T, typename F>
PACELINE_DEVICE void reduce(const ReduceParameters& given) {
  const ReduceParameters* const found = wanted(given);
  if (found == nullptr) return;
  const ReduceParameters& p = *found;
  unsigned differs = 0;
  for (unsigned k = 1; k < p.inputs; ++k) differs |= misalignment(p.in[k], kVector) ^ misalignment(p.in[0], kVector);
  for (unsigned k = 0; k < p.outputs; ++k) differs |= misalignment(p.out[k], kVector) ^ misalignment(p.in[0], kVector);
  for_elements<T>(p.count, p.in[0], differs == 0, Reduction<T, F>{p});
}

template <typename T>
struct Scaling {
  const ScaleParameters& p;

  template <unsigned kLanes>
  PACELINE_DEVICE void at(std::uint64_t first) const {
    const auto factor = static_cast<Wide<T>>(p.factor);
    Pack<T, kLanes> pack = load<T, kLanes>(p.in + first * sizeof(T));
    PACELINE_UNROLL
    for (unsigned i = 0; i < kLanes; ++i) pack.element[i] = narrow<T>(wide(pack.element[i]) * factor);
    store(p.out + first * sizeof(T), pack);
  }
};

template <typename T>
PACELINE_DEVICE void scale(const ScaleParameters& p) {
  for_elements<T>(p.count, p.in, misalignment(p.in, kVector) == misalignment(p.out, kVector), Scaling<T>{p});
}

struct Copying {
  const std::byte* from;
  std::byte* to;

  template <unsigned kLanes>
  PACELINE_DEVICE void at(std::uint64_t first) const {
    store(to + first, load<std::uint8_t, kLanes>(from + first));
  }
};

PACELINE_DEVICE void copy(const CopyParameters& given) {
  const CopyParameters* const found = wanted(given);
  if (found == nullptr) return;
  const CopyParameters& p = *found;
  PACELINE_ROLLED
  for (unsigned k = 0; k < p.parts; ++k) {
    const bool congruent = misalignment(p.from[k], kVector) == misalignment(p.to[k], kVector);
    for_elements<std::uint8_t>(p.bytes[k], p.from[k], congruent, Copying{p.from[k], p.to[k]});
  }
}

}  // namespace paceline::device
