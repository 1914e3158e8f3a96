// lossless: the exponents of a block under a prefix code of its own, signs and mantissas as they are.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// A block's payload: signs and mantissas; Table and its symbols; the list of words; what lanes hold at first; the list
// of escaped exponents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/bit_lanes.hpp"
#include "codec/codec.hpp"
#include "codec/plain.hpp"
#include "codec/prefix_code.hpp"
#include "codec/varying.hpp"
#include "kernel/half_lanes.hpp"

namespace paceline {
namespace {

// Takes elements apart into exponents and the rest, and puts them together again.
template <typename T>
struct Parts;

template <>
struct Parts<BFloat16> {
  static constexpr std::size_t kRest = 1;  // bytes of an element beside its exponent

  static void split(const std::byte* in, std::size_t elements, std::uint8_t* exponents, std::byte* rest) {
    for (std::size_t i = 0; i < elements; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
      exponents[i] = static_cast<std::uint8_t>(bits >> 7);
      rest[i] = static_cast<std::byte>((bits >> 8 & 0x80) | (bits & 0x7f));
    }
  }
  static void join(const std::uint8_t* exponents, const std::byte* rest, std::size_t elements, std::byte* out) {
    for (std::size_t i = 0; i < elements; ++i) {
      const auto other = static_cast<std::uint16_t>(rest[i]);
      const auto bits = static_cast<std::uint16_t>((other & 0x80) << 8 | exponents[i] << 7 | (other & 0x7f));
      std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
  }
};

template <>
struct Parts<float> {
  static constexpr std::size_t kRest = 3;  // the highest byte of all, then the lower two of all

  static void split(const std::byte* in, std::size_t elements, std::uint8_t* exponents, std::byte* rest) {
    std::byte* const low = rest + elements;
    for (std::size_t i = 0; i < elements; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
      const auto lower = static_cast<std::uint16_t>(bits);
      exponents[i] = static_cast<std::uint8_t>(bits >> 23);
      rest[i] = static_cast<std::byte>((bits >> 24 & 0x80) | (bits >> 16 & 0x7f));
      std::memcpy(low + i * sizeof lower, &lower, sizeof lower);
    }
  }
  static void join(const std::uint8_t* exponents, const std::byte* rest, std::size_t elements, std::byte* out) {
    const std::byte* const low = rest + elements;
    for (std::size_t i = 0; i < elements; ++i) {
      std::uint16_t lower;
      std::memcpy(&lower, low + i * sizeof lower, sizeof lower);
      const auto high = static_cast<std::uint32_t>(rest[i]);
      const std::uint32_t bits =
          (high & 0x80U) << 24 | static_cast<std::uint32_t>(exponents[i]) << 23 | (high & 0x7fU) << 16 | lower;
      std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
  }
};

// How often each exponent occurs, in every fourth run of a whole block: that is enough to choose a code by. Returns how
// many elements were counted. Four counters each: the next increment of the same one need not wait for the last.
inline std::size_t count_exponents(const std::uint8_t* exponents, std::size_t elements, std::uint32_t* counts) {
  constexpr std::size_t kCounters = 4;
  constexpr std::size_t kRun = 64;
  const std::size_t next = elements == kCodecBlock ? 4 * kRun : kRun;
  std::uint16_t of[kCounters][kSymbols] = {};
  std::size_t first = 0;
  std::size_t counted = 0;
  for (; first + kRun <= elements; first += next, counted += kRun)
    for (std::size_t i = 0; i < kRun; i += kCounters)
      for (std::size_t k = 0; k < kCounters; ++k) ++of[k][exponents[first + i + k]];
  for (; first < elements; ++first, ++counted) ++of[0][exponents[first]];
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol)
    counts[symbol] = std::uint32_t{of[0][symbol]} + of[1][symbol] + of[2][symbol] + of[3][symbol];
  return counted;
}

template <typename T>
struct Lossless {
  using Element = T;

  static std::size_t encode_block(const std::byte* in, std::size_t elements, std::byte* out) {
    if (elements < kLeast) return store_block(in, elements * sizeof(T), out);
    std::uint8_t exponents[kPadded];
    std::uint32_t counts[kSymbols];
    std::byte* const rest = out + kHeader;
    Parts<T>::split(in, elements, exponents, rest);
    const std::size_t counted = count_exponents(exponents, elements, counts);
    const PrefixCode code = choose_code(counts, counted);
    if (code.symbols == 0) return store_block(in, elements * sizeof(T), out);
    const std::size_t steps = (elements + kStep - 1) / kStep;
    const std::uint8_t most_frequent = code.symbol[0];
    if (most_frequent == code.escape) return store_block(in, elements * sizeof(T), out);
    std::memset(exponents + elements, most_frequent, steps * kStep - elements);

    std::uint16_t table[kSymbols];
    std::byte list[kLongestList + kSlack];
    std::uint8_t escaped[kCodecBlock];
    encoding_table(code, table);
    const Coded coded = encode_lanes(exponents, steps, table, list, escaped);

    const std::size_t rest_bytes = elements * Parts<T>::kRest;
    const std::size_t bytes =
        rest_bytes + sizeof(Table) + code.symbols + coded.list_bytes + sizeof coded.state + coded.escapes;
    if (bytes >= elements * sizeof(T)) return store_block(in, elements * sizeof(T), out);
    std::byte* to = rest + rest_bytes;
    const auto append = [&to](const void* from, std::size_t size) {
      std::memcpy(to, from, size);
      to += size;
    };
    Table header{};
    header.list_bytes = static_cast<std::uint16_t>(coded.list_bytes);
    header.escapes = static_cast<std::uint16_t>(coded.escapes);
    header.escape = code.escape;
    std::memcpy(header.of_length, code.of_length + 1, sizeof header.of_length);
    append(&header, sizeof header);
    append(code.symbol, code.symbols);
    append(list, coded.list_bytes);
    append(&coded.state, sizeof coded.state);
    append(escaped, coded.escapes);
    return write_header(out, bytes);
  }

  template <typename Sink>
  static std::size_t decode_block(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) {
    const Payload payload = payload_of(in, bytes);
    if (payload.data == nullptr) return 0;
    if (payload.stored) {
      if (payload.bytes != elements * sizeof(T)) return 0;
      Plain<T>::template decode_block<Sink>(payload.data, payload.bytes, out, elements);
      return kHeader + payload.bytes;
    }
    std::uint8_t exponents[kPadded];
    if (elements < kLeast || !decode_exponents(payload, elements, exponents)) return 0;
    deliver(exponents, payload.data, elements, out, Sink{});
    return kHeader + payload.bytes;
  }

 private:
  static constexpr std::size_t kLeast = kSlack;  // elements, so that what precedes the list of words can be read
  static constexpr std::size_t kPadded = kCodecBlock + kStep;
  static constexpr std::size_t kLongestList = kCodecBlock / 2 * sizeof(std::uint16_t);  // a word per pair

  struct Table {
    std::uint16_t list_bytes;
    std::uint16_t escapes;
    std::uint8_t escape;
    std::uint8_t of_length[kMostBits];
  };

  static void deliver(const std::uint8_t* exponents, const std::byte* rest, std::size_t elements, std::byte* out,
                      Store) {
    Parts<T>::join(exponents, rest, elements, out);
  }
  static void deliver(const std::uint8_t* exponents, const std::byte* rest, std::size_t elements, std::byte* out, Add) {
    std::byte terms[kCodecBlock * sizeof(T)];
    Parts<T>::join(exponents, rest, elements, terms);
    Plain<T>::template decode_block<Add>(terms, elements * sizeof(T), out, elements);
  }

  static bool decode_exponents(Payload payload, std::size_t elements, std::uint8_t* exponents) {
    const std::size_t rest_bytes = elements * Parts<T>::kRest;
    Table header;
    if (payload.bytes < rest_bytes + sizeof header) return false;
    const std::byte* from = payload.data + rest_bytes;
    std::size_t left = payload.bytes - rest_bytes - sizeof header;
    std::memcpy(&header, from, sizeof header);
    from += sizeof header;

    PrefixCode code;
    for (int length = 1; length <= kMostBits; ++length) {
      code.of_length[length] = header.of_length[length - 1];
      code.symbols += code.of_length[length];
    }
    LaneState state;
    if (code.symbols > kSlots) return false;
    if (left != code.symbols + header.list_bytes + sizeof state + header.escapes) return false;
    std::memcpy(code.symbol, from, code.symbols);
    const std::byte* const words = from + code.symbols;
    const std::byte* const held = words + header.list_bytes;
    const std::byte* const escapes = held + sizeof state;
    std::memcpy(&state, held, sizeof state);
    for (const std::uint8_t count : state.count)
      if (count < kLeastBits || count > kMostHeld) return false;

    std::uint16_t table[kSlots];
    if (!decoding_table(code, table)) return false;
    const Lists lists{words, held, escapes, escapes + header.escapes, header.escape};
    return decode_lanes(state, table, lists, (elements + kStep - 1) / kStep, exponents);
  }
};

}  // namespace
}  // namespace paceline
