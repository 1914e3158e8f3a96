// A prefix code for the exponents of one block, chosen by how often each occurs; no code is longer than 7 bits.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
//
// Exponents that are too rare for a code of their own share one, the escape. It is written as one of them: so decoding
// finds a symbol in every place, and what stands where the escape's symbol was found comes from a list.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {
namespace {

constexpr int kMostBits = 7;                     // of a code
constexpr std::size_t kSlots = 1U << kMostBits;  // of a table that 7 bits index
constexpr std::size_t kSymbols = 256;            // exponents of 8 bits
constexpr std::size_t kRare = 700;               // escaped if less than one in so many

// Symbols with shorter codes stand first; codes of one length are consecutive numbers.
struct PrefixCode {
  std::size_t symbols = 0;  // 0: the exponents are too many for a code that pays
  std::uint8_t symbol[kSlots];
  std::uint8_t of_length[kMostBits + 1] = {};  // how many have a code of so many bits
  std::uint8_t escape = 0;                     // its symbol
};

// `counts` of each exponent among `elements`, which may be a sample: there is always an escape. Each symbol takes a
// power of two of the slots in a table that 7 bits index: first no more than its share of all elements, then whichever
// gains most per slot takes twice as many, until the table is full.
[[maybe_unused]] PrefixCode choose_code(const std::uint32_t* counts, std::size_t elements) {
  constexpr std::size_t kMostSymbols = kSlots / 2;
  std::uint32_t count[kMostSymbols + 1];
  std::uint32_t slots[kMostSymbols + 1];
  PrefixCode code;
  std::size_t used = 0;
  std::uint32_t escapes = 1;
  const auto insert = [&](std::uint32_t times, std::size_t symbol) {
    std::size_t place = used++;
    for (; place > 0 && count[place - 1] < times; --place) {
      count[place] = count[place - 1];
      code.symbol[place] = code.symbol[place - 1];
    }
    count[place] = times;
    code.symbol[place] = static_cast<std::uint8_t>(symbol);
  };
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
    if (counts[symbol] * kRare < elements) {
      code.escape = static_cast<std::uint8_t>(symbol);
      escapes += counts[symbol];
    } else if (used < kMostSymbols) {
      insert(counts[symbol], symbol);
    } else {
      return code;
    }
  }
  insert(escapes, code.escape);

  std::size_t left = kSlots;
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t share = count[i] * kSlots / (elements + 1);
    const std::size_t power = share == 0 ? 1 : std::size_t{1} << (63 - __builtin_clzll(share));
    slots[i] = static_cast<std::uint32_t>(power < kSlots / 2 ? power : kSlots / 2);
    left -= slots[i];
  }
  if (left > kSlots) {  // below zero: there are many symbols whose share is less than a slot
    for (std::size_t i = 0; i < used; ++i) slots[i] = 1;
    left = kSlots - used;
  }
  while (left > 0) {
    std::size_t best = used;
    for (std::size_t i = 0; i < used; ++i) {
      if (slots[i] > left || slots[i] == kSlots / 2) continue;
      if (best == used || count[i] * slots[best] > count[best] * slots[i]) best = i;
    }
    if (best == used) break;
    left -= slots[best];
    slots[best] *= 2;
  }
  for (std::size_t i = 0; i < used; ++i) ++code.of_length[kMostBits - __builtin_ctz(slots[i])];
  code.symbols = used;
  return code;
}

// For each of the 7 bits that may come next: the symbol of the code that they begin with, and in the lower byte its
// length. False if the lengths are those of no code.
[[maybe_unused]] bool decoding_table(const PrefixCode& code, std::uint16_t* table) {
  std::size_t slot = 0;
  std::size_t next = 0;
  for (int length = 1; length <= kMostBits; ++length) {
    const std::size_t slots = kSlots >> length;
    for (std::size_t i = 0; i < code.of_length[length]; ++i, ++next) {
      if (slot + slots > kSlots || next >= code.symbols) return false;
      for (std::size_t end = slot + slots; slot < end; ++slot)
        table[slot] = static_cast<std::uint16_t>(code.symbol[next] << 8 | length);
    }
  }
  while (slot < kSlots) table[slot++] = kMostBits;  // no code begins so
  return next == code.symbols;
}

constexpr std::uint16_t kEscaped = 1U << 15;  // in an entry of the encoding table

// For each symbol: its code, and in the lower byte the length of that.
[[maybe_unused]] void encoding_table(const PrefixCode& code, std::uint16_t* table) {
  std::size_t slot = 0;
  std::size_t next = 0;
  std::uint16_t entries[kSlots];
  for (int length = 1; length <= kMostBits; ++length)
    for (std::size_t i = 0; i < code.of_length[length]; ++i, ++next, slot += kSlots >> length)
      entries[next] =
          static_cast<std::uint16_t>((slot >> (kMostBits - length)) << 8 | static_cast<std::size_t>(length));
  std::uint16_t escape = 0;
  for (std::size_t i = 0; i < code.symbols; ++i)
    if (code.symbol[i] == code.escape) escape = entries[i] | kEscaped;
  for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) table[symbol] = escape;
  for (std::size_t i = 0; i < code.symbols; ++i)
    if (code.symbol[i] != code.escape) table[code.symbol[i]] = entries[i];
}

}  // namespace
}  // namespace paceline
