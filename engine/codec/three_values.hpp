// Three values in a 32-bit word: what lies where, of one word or of a vector of them. constexpr, so that nvcc compiles
// it for GPUs too (engine/device). Everything is in an anonymous namespace: each instruction set must keep its own
// copy.
//
// A value is a sign, the lower 4 bits of its exponent and 5 bits of mantissa. The three values of a word share the
// upper 4 bits of the exponent: 0111, for magnitudes in [2^-15, 2), as soon as one of them is that large; else 0110,
// for [2^-31, 2^-15). The smallest value of each range stands for zero. Each value is rounded to the nearest that the
// word can hold, so that small neighbours of larger ones may become zero. The paper's own rule decodes such words
// wrongly, and says nothing of zero, of 2 and above, of infinities and of NaN: here the word's spare bit says that the
// three values follow, as they were, in a list behind all words of the block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {
namespace {

struct ThreeValues {
  // A tile is three rows of elements; the word in each column holds what stands there. The last tile of a block may
  // be narrower.
  static constexpr std::size_t kRows = 3;
  static constexpr std::size_t kWidth = 16;
  static constexpr std::size_t kTile = kRows * kWidth;
  static constexpr std::size_t kWord = sizeof(std::uint32_t);
  static constexpr std::uint32_t kEscape = 1U << 31;
  static constexpr int kUpper = 30;  // the bit that says 0111
  static constexpr int kValueBits = 10;
  static constexpr int kSign = 9;  // the bit of a value
  static constexpr std::uint32_t kEscaped =
      kEscape | 1U << kSign | 1U << (kSign + kValueBits) | 1U << (kSign + 2 * kValueBits);
  static constexpr int kDropped = 18;  // the bits of a float32's mantissa that go
  // Exponent and mantissa, with 5 bits, of the smallest value of each range, and of what is too large.
  static constexpr std::int32_t kLower0110 = 0b01100000 << 5;
  static constexpr std::int32_t kLower0111 = 0b01110000 << 5;
  static constexpr std::int32_t kTooLarge = 0b10000000 << 5;
  static constexpr std::int32_t kExponentOne = 1 << 5;

  // The element of a block that stands in this row of this word.
  static constexpr std::size_t place_of(std::size_t word, std::size_t row, std::size_t elements) {
    const std::size_t tile = word / kWidth;
    const std::size_t left = elements - tile * kTile;
    const std::size_t width = left < kTile ? (left + kRows - 1) / kRows : kWidth;
    return tile * kTile + row * width + word % kWidth;
  }

  // The word of three float32, whose bits are given. Ints are std::int32_t, or as many of them as Bits has lanes.
  template <typename Ints, typename Bits>
  static constexpr Bits word_of(Bits first, Bits second, Bits third) {
    const Bits bits[kRows] = {first, second, third};
    Ints rounded[kRows] = {};
    for (std::size_t row = 0; row < kRows; ++row) {
      const Bits magnitude = bits[row] & 0x7fffffffU;
      rounded[row] = Ints((magnitude + 0x1ffffU + ((magnitude >> kDropped) & 1U)) >> kDropped);
    }
    Ints most = rounded[0] > rounded[1] ? rounded[0] : rounded[1];
    most = rounded[2] > most ? rounded[2] : most;
    const Ints none = most - most;
    const Ints lower = most >= kLower0111 ? none + kLower0111 : none + kLower0110;
    const Ints half = (lower - kExponentOne + 1) << kDropped;  // of the smallest value that is not zero
    Ints word = most >= kLower0111 ? none + (1 << kUpper) : none;
    for (std::size_t row = 0; row < kRows; ++row) {
      const Ints smallest = Ints(bits[row] & 0x7fffffffU) > half ? none + 1 : none;
      const Ints above = rounded[row] - lower;
      const Ints value = above > smallest ? above : smallest;
      word |= (value | Ints(bits[row] >> 31 << kSign)) << static_cast<int>(row * kValueBits);
    }
    return most >= kTooLarge ? Bits(none) + kEscaped : Bits(word);
  }

  // The bits of the float32 in a row of a word that is not escaped.
  template <typename Bits>
  static constexpr Bits value_of(Bits word, std::size_t row) {
    const Bits none = word - word;
    const Bits lower = (word >> kUpper & 1U) * static_cast<std::uint32_t>(kLower0111 - kLower0110) +
                       static_cast<std::uint32_t>(kLower0110);
    const Bits value = word >> static_cast<int>(row * kValueBits);
    const Bits above = value & ((1U << kSign) - 1);
    const Bits magnitude = above == 0U ? none : (above + lower) << kDropped;
    return magnitude | (value >> kSign & 1U) << 31;
  }
};

}  // namespace
}  // namespace paceline
