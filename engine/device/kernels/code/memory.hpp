// Elements and vectors in memory, read and written as GPUs want it: aligned, or byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernels/code/shim.hpp"

namespace paceline::device {

inline constexpr unsigned kVector = 16;  // bytes, the most that a thread moves at once

// Unsigned integers that stand for what lies in memory, of whatever type that is.
template <std::size_t kBytes>
struct Bits;
template <>
struct Bits<1> {
  typedef std::uint8_t type __attribute__((may_alias));
};
template <>
struct Bits<2> {
  typedef std::uint16_t type __attribute__((may_alias));
};
template <>
struct Bits<4> {
  typedef std::uint32_t type __attribute__((may_alias));
};
template <>
struct Bits<8> {
  typedef std::uint64_t type __attribute__((may_alias));
};
struct __attribute__((may_alias, aligned(kVector))) Vector {
  std::uint32_t words[kVector / sizeof(std::uint32_t)];
};

template <typename T, unsigned kLanes>
struct Pack {
  T element[kLanes];
};

PACELINE_DEVICE unsigned misalignment(const std::byte* at, unsigned alignment) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at)) & (alignment - 1);
}

// Loads one element of any alignment.
template <typename T>
PACELINE_DEVICE T load_element(const std::byte* from) {
  using Word = typename Bits<sizeof(T)>::type;
  if (misalignment(from, sizeof(T)) == 0) return __builtin_bit_cast(T, *reinterpret_cast<const Word*>(from));
  std::uint64_t word = 0;
  PACELINE_UNROLL
  for (unsigned i = 0; i < sizeof(T); ++i) word |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return __builtin_bit_cast(T, static_cast<Word>(word));
}

template <typename T>
PACELINE_DEVICE void store_element(std::byte* to, T element) {
  using Word = typename Bits<sizeof(T)>::type;
  const Word word = __builtin_bit_cast(Word, element);
  if (misalignment(to, sizeof(T)) == 0) {
    *reinterpret_cast<Word*>(to) = word;
    return;
  }
  PACELINE_UNROLL
  for (unsigned i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(word) >> (8 * i));
}

// Loads one element of any alignment, or a vector of them that is aligned to its size.
template <typename T, unsigned kLanes>
PACELINE_DEVICE Pack<T, kLanes> load(const std::byte* from) {
  if constexpr (kLanes == 1) {
    return {{load_element<T>(from)}};
  } else {
    static_assert(kLanes * sizeof(T) == kVector);
    return __builtin_bit_cast(Pack<T, kLanes>, *reinterpret_cast<const Vector*>(from));
  }
}

template <typename T, unsigned kLanes>
PACELINE_DEVICE void store(std::byte* to, Pack<T, kLanes> pack) {
  if constexpr (kLanes == 1)
    store_element(to, pack.element[0]);
  else
    *reinterpret_cast<Vector*>(to) = __builtin_bit_cast(Vector, pack);
}

// Shares `count` elements of a kernel among all of its threads. Those between two multiples of 16 bytes are served as
// vectors by `serve.template operator()<lanes>(first)`, the others one by one.
template <typename T, typename Serve>
PACELINE_DEVICE void for_elements(std::uint64_t count, const std::byte* any, bool congruent, const Serve& serve) {
  constexpr unsigned kLanes = kVector / sizeof(T);
  const std::uint64_t thread = std::uint64_t{block_in_grid()} * threads_in_block() + thread_in_block();
  const std::uint64_t threads = std::uint64_t{blocks_in_grid()} * threads_in_block();
  std::uint64_t head = (kVector - misalignment(any, kVector)) % kVector / sizeof(T);
  if (!congruent || misalignment(any, sizeof(T)) != 0 || head > count) head = count;
  const std::uint64_t vectors = (count - head) / kLanes;
  for (std::uint64_t i = thread; i < vectors; i += threads) serve.template at<kLanes>(head + i * kLanes);
  for (std::uint64_t i = thread; i < count - vectors * kLanes; i += threads)
    serve.template at<1>(i < head ? i : i + vectors * kLanes);
}

}  // namespace paceline::device
