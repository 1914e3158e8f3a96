// The codecs int8 and int4: the bytes of engine/codec/integers.hpp. A warp serves a group of 128 elements that share a
// scale; a thread holds the elements that share its bytes.
#pragma once

#include <type_traits>

#include "codec/layout.hpp"
#include "codec/scale.hpp"
#include "device/kernels/code/sinks.hpp"
#include "device/kernels/launch.hpp"

namespace paceline::device {

template <unsigned kBits>
struct Integers {
  static constexpr unsigned kGroup = kScaleGroup;
  static constexpr int kMost = (1 << (kBits - 1)) - 1;
  static constexpr unsigned kRows = 8 / kBits;                  // elements that share a byte
  static constexpr unsigned kColumns = kGroup / kRows / kWarp;  // bytes of a thread
  static constexpr unsigned kEncoded = sizeof(float) + kGroup / kRows;
  using Columns = std::conditional_t<kColumns == 4, std::uint32_t, std::uint16_t>;

  // The group of this warp; the last of a range may have fewer elements, in rows that are shorter.
  std::uint64_t first;  // element of the range
  unsigned elements;
  unsigned width;  // elements of a row

  PACELINE_DEVICE Integers(std::uint64_t group, std::uint64_t all)
      : first(group * kGroup),
        elements(all - first < kGroup ? static_cast<unsigned>(all - first) : kGroup),
        width((elements + kRows - 1) / kRows) {}

  // The element of the group that this thread holds there, or `elements` if it has none.
  PACELINE_DEVICE unsigned place(unsigned row, unsigned column) const {
    const unsigned in_row = lane() * kColumns + column;
    const unsigned at = row * width + in_row;
    return in_row < width && at < elements ? at : elements;
  }

  // Whether every thread holds whole rows, which lie where they can be moved at once.
  PACELINE_DEVICE bool moves_rows(const std::byte* floats) const {
    return elements == kGroup && misalignment(floats, kVector) == 0;
  }
  PACELINE_DEVICE std::uint64_t row_offset(unsigned row) const {
    return (first + std::uint64_t{row} * width + std::uint64_t{lane()} * kColumns) * sizeof(float);
  }
  PACELINE_DEVICE static Pack<float, kColumns> load_row(const std::byte* from) {
    if constexpr (kColumns * sizeof(float) == kVector)
      return load<float, kColumns>(from);
    else
      return load_element<Pack<float, kColumns>>(from);
  }
  PACELINE_DEVICE static void store_row(std::byte* to, Pack<float, kColumns> row) {
    if constexpr (kColumns * sizeof(float) == kVector)
      store(to, row);
    else
      store_element(to, row);
  }

  template <typename Serve>
  PACELINE_DEVICE void for_own(const Serve& serve) const {
    PACELINE_UNROLL
    for (unsigned row = 0; row < kRows; ++row) {
      PACELINE_UNROLL
      for (unsigned column = 0; column < kColumns; ++column) serve(row, column, place(row, column));
    }
  }

  // The element's whole multiple of the scale, out of the thread's bytes.
  PACELINE_DEVICE static std::int32_t multiple(Columns bytes, unsigned row, unsigned column) {
    const std::uint32_t word = static_cast<std::uint32_t>(bytes) << (32 - 8 * column - (row + 1) * kBits);
    return static_cast<std::int32_t>(word) >> (32 - kBits);
  }

  PACELINE_DEVICE void encode(const EncodeParameters& p) const {
    Pack<float, kColumns> value[kRows];
    if (p.residual == nullptr && moves_rows(p.in)) {
      PACELINE_UNROLL
      for (unsigned row = 0; row < kRows; ++row) value[row] = load_row(p.in + row_offset(row));
    } else {
      for_own([&](unsigned row, unsigned column, unsigned at) {
        value[row].element[column] = at < elements ? wanted(p.in, p.residual, first + at) : 0;
      });
    }
    std::uint32_t most = 0;
    for_own([&](unsigned row, unsigned column, unsigned) {
      const std::uint32_t magnitude = as_bits(value[row].element[column]) & 0x7fffffffU;
      most = magnitude > most ? magnitude : most;
    });
    const auto [scale, inverse] = scale_of<kMost>(static_cast<std::int32_t>(warp_max(most)));
    Columns bytes = 0;
    if (inverse != 0) {
      for_own([&, by = inverse](unsigned row, unsigned column, unsigned) {
        const std::uint32_t rounded = as_bits(value[row].element[column] * by + kRound);
        bytes |= static_cast<Columns>((rounded & ((1U << kBits) - 1)) << (8 * column + row * kBits));
      });
    }
    std::byte* const to = p.out + first / kGroup * kEncoded;
    if (lane() == 0) store_element(to, scale);
    const unsigned begin = lane() * kColumns;
    if (begin + kColumns <= width) {
      store_element(to + sizeof(float) + begin, bytes);
    } else {
      for (unsigned i = begin; i < width; ++i)
        to[sizeof(float) + i] = static_cast<std::byte>(bytes >> (8 * (i - begin)));
    }
    if (p.residual == nullptr) return;
    for_own([&, unit = scale](unsigned row, unsigned column, unsigned at) {
      if (at < elements)
        keep_lost(p.residual, first + at, value[row].element[column],
                  static_cast<float>(multiple(bytes, row, column)) * unit);
    });
  }

  template <typename Sink>
  PACELINE_DEVICE void decode(const DecodeParameters& p) const {
    const std::byte* const from = p.in + first / kGroup * kEncoded;
    const auto scale = load_element<float>(from);
    const unsigned begin = lane() * kColumns;
    Columns bytes = 0;
    if (begin + kColumns <= width) {
      bytes = load_element<Columns>(from + sizeof(float) + begin);
    } else {
      for (unsigned i = begin; i < width; ++i)
        bytes |= static_cast<Columns>(std::to_integer<std::uint32_t>(from[sizeof(float) + i]) << (8 * (i - begin)));
    }
    if (moves_rows(p.out)) {
      PACELINE_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        std::byte* const to = p.out + row_offset(row);
        Pack<float, kColumns> decoded;
        PACELINE_UNROLL
        for (unsigned column = 0; column < kColumns; ++column)
          decoded.element[column] = static_cast<float>(multiple(bytes, row, column)) * scale;
        if constexpr (std::is_same_v<Sink, Add>) {
          const Pack<float, kColumns> before = load_row(to);
          PACELINE_UNROLL
          for (unsigned column = 0; column < kColumns; ++column)
            decoded.element[column] = before.element[column] + decoded.element[column];
        }
        store_row(to, decoded);
      }
      return;
    }
    for_own([&](unsigned row, unsigned column, unsigned at) {
      if (at < elements) put<Sink>(p.out, first + at, static_cast<float>(multiple(bytes, row, column)) * scale);
    });
  }
};

// Shares the groups among all warps of the grid.
template <unsigned kBits, typename Serve>
PACELINE_DEVICE void for_groups(std::uint64_t elements, const Serve& serve) {
  const std::uint64_t warps = std::uint64_t{blocks_in_grid()} * (threads_in_block() / kWarp);
  std::uint64_t group = std::uint64_t{block_in_grid()} * (threads_in_block() / kWarp) + warp_in_block();
  for (; group * Integers<kBits>::kGroup < elements; group += warps) serve(Integers<kBits>(group, elements));
}

template <unsigned kBits>
PACELINE_DEVICE void encode_integers(const EncodeParameters& p) {
  for_groups<kBits>(p.elements, [&](const Integers<kBits>& group) { group.encode(p); });
}

template <unsigned kBits, typename Sink>
PACELINE_DEVICE void decode_integers(const DecodeParameters& p) {
  for_groups<kBits>(p.elements, [&](const Integers<kBits>& group) { group.template decode<Sink>(p); });
}

}  // namespace paceline::device
