// The codec three_in_one: the bytes of engine/codec/three_in_one.hpp. A block of threads serves a block of elements, a
// thread a word at a time.
//
// The size of an encoded block depends on what is in it. So encoding first measures all blocks, then adds up where each
// begins, then writes; and decoding first follows the blocks' lengths, where most blocks have the usual one.
#pragma once

#include "codec/layout.hpp"
#include "codec/three_values.hpp"
#include "codec/varying.hpp"
#include "device/kernels/code/sinks.hpp"
#include "device/kernels/launch.hpp"

namespace paceline::device::three_in_one {

inline constexpr unsigned kRows = ThreeValues::kRows;
inline constexpr std::size_t kWord = ThreeValues::kWord;
inline constexpr std::size_t kListed = kRows * sizeof(float);  // bytes of an escaped word in the list
inline constexpr unsigned kMostWords = (kCodecBlock + kRows - 1) / kRows;
inline constexpr unsigned kMasks = (kMostWords + kWarp - 1) / kWarp;

// Which words of a block are escaped, a bit for each.
struct Escapes {
  std::uint32_t mask[kMasks];

  // The escaped ones among the first `words`.
  PACELINE_DEVICE unsigned before(unsigned words) const {
    unsigned count = 0;
    for (unsigned i = 0; i < words / kWarp; ++i) count += population(mask[i]);
    return words % kWarp == 0 ? count : count + population(mask[words / kWarp] & ((1U << words % kWarp) - 1));
  }
  PACELINE_DEVICE bool has(unsigned word) const { return (mask[word / kWarp] >> word % kWarp & 1U) != 0; }
};

struct Block {
  std::uint64_t first;  // element of the range
  unsigned elements;
  unsigned words;

  PACELINE_DEVICE Block(std::uint64_t index, std::uint64_t all)
      : first(index * kCodecBlock),
        elements(all - first < kCodecBlock ? static_cast<unsigned>(all - first) : unsigned{kCodecBlock}),
        words((elements + kRows - 1) / kRows) {}

  // Where an element of a word is in the range, or the end of the block where there is none.
  PACELINE_DEVICE std::uint64_t element(unsigned word, unsigned row) const {
    const auto place = static_cast<unsigned>(ThreeValues::place_of(word, row, elements));
    return first + (place < elements ? place : elements);
  }
  PACELINE_DEVICE bool holds(std::uint64_t element) const { return element < first + elements; }

  // Payload bytes, by the rule of the codec: the elements as they were where the list would not pay.
  PACELINE_DEVICE bool stored(unsigned escaped) const {
    return escaped > 0 && words * kWord + escaped * kListed > elements * sizeof(float);
  }
  PACELINE_DEVICE std::uint32_t payload(unsigned escaped) const {
    return static_cast<std::uint32_t>(stored(escaped) ? elements * sizeof(float) : words * kWord + escaped * kListed);
  }
};

PACELINE_DEVICE std::uint64_t blocks_of(std::uint64_t elements) { return (elements + kCodecBlock - 1) / kCodecBlock; }

// Calls `serve(word)` for the words of this thread, and for as many beyond the last as give every warp whole turns.
template <typename Serve>
PACELINE_DEVICE void for_words(unsigned words, const Serve& serve) {
  const unsigned rounded = (words + kWarp - 1) / kWarp * kWarp;
  for (unsigned word = thread_in_block(); word < rounded; word += threads_in_block()) serve(word);
}

PACELINE_DEVICE std::uint32_t encoded_word(const EncodeParameters& p, const Block& block, unsigned word) {
  std::uint32_t bits[kRows];
  PACELINE_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    const std::uint64_t at = block.element(word, row);
    bits[row] = block.holds(at) ? as_bits(wanted(p.in, p.residual, at)) : 0;
  }
  return ThreeValues::word_of<std::int32_t>(bits[0], bits[1], bits[2]);
}

PACELINE_DEVICE bool is_escaped(std::uint32_t word) { return (word & ThreeValues::kEscape) != 0; }

// offsets[i + 1]: the bytes of block i.
PACELINE_DEVICE void measure(const EncodeParameters& p) {
  PACELINE_SHARED Escapes escapes;
  for (std::uint64_t index = block_in_grid(); index < blocks_of(p.elements); index += blocks_in_grid()) {
    const Block block(index, p.elements);
    bool any = false;
    for_words(block.words, [&](unsigned word) {
      const bool escaped = word < block.words && is_escaped(encoded_word(p, block, word));
      const std::uint32_t mask = warp_ballot(escaped);
      if (lane() == 0) escapes.mask[word / kWarp] = mask;
      any |= escaped;
    });
    const bool some = block_count(any) != 0;
    if (thread_in_block() == 0) {
      const unsigned escaped = some ? escapes.before(block.words) : 0;
      p.offsets[index + 1] = kHeader + block.payload(escaped);
    }
    block_barrier();
  }
}

// From the bytes of blocks to where they begin. One block of threads does it, each thread a run of blocks.
PACELINE_DEVICE void place(const EncodeParameters& p) {
  PACELINE_SHARED std::uint64_t sums[kMostThreads];
  const std::uint64_t blocks = blocks_of(p.elements);
  const std::uint64_t run = (blocks + threads_in_block() - 1) / threads_in_block();
  const std::uint64_t begin = run * thread_in_block() < blocks ? run * thread_in_block() : blocks;
  const std::uint64_t end = begin + run < blocks ? begin + run : blocks;
  std::uint64_t sum = 0;
  for (std::uint64_t i = begin; i < end; ++i) sum += p.offsets[i + 1];
  sums[thread_in_block()] = sum;
  block_barrier();
  std::uint64_t offset = 0;
  for (unsigned thread = 0; thread < thread_in_block(); ++thread) offset += sums[thread];
  for (std::uint64_t i = begin; i < end; ++i) {
    offset += p.offsets[i + 1];
    p.offsets[i + 1] = offset;
  }
  if (thread_in_block() == 0) p.offsets[0] = 0;
}

// Writes the blocks where they belong.
PACELINE_DEVICE void encode(const EncodeParameters& p) {
  PACELINE_SHARED Escapes escapes;
  for (std::uint64_t index = block_in_grid(); index < blocks_of(p.elements); index += blocks_in_grid()) {
    const Block block(index, p.elements);
    std::byte* const words = p.out + p.offsets[index] + kHeader;
    bool any = false;
    for_words(block.words, [&](unsigned word) {
      const std::uint32_t encoded = word < block.words ? encoded_word(p, block, word) : 0;
      if (word < block.words) store_element(words + word * kWord, encoded);
      const std::uint32_t mask = warp_ballot(is_escaped(encoded));
      if (lane() == 0) escapes.mask[word / kWarp] = mask;
      any |= is_escaped(encoded);
    });
    const bool some = block_count(any) != 0;
    const unsigned escaped = some ? escapes.before(block.words) : 0;
    const bool stored = block.stored(escaped);
    if (thread_in_block() == 0) store_element(words - kHeader, block.payload(escaped) | (stored ? kStored : 0));
    if (stored) {
      for (unsigned i = thread_in_block(); i < block.elements; i += threads_in_block())
        store_element(words + i * sizeof(float), wanted(p.in, p.residual, block.first + i));
    } else if (some) {
      for_words(block.words, [&](unsigned word) {
        if (word >= block.words || !escapes.has(word)) return;
        std::byte* const list = words + block.words * kWord + escapes.before(word) * kListed;
        for (unsigned row = 0; row < kRows; ++row) {
          const std::uint64_t at = block.element(word, row);
          store_element(list + row * sizeof(float), block.holds(at) ? wanted(p.in, p.residual, at) : 0.0F);
        }
      });
    }
    block_barrier();  // before the masks, and what the residual was, are overwritten
    if (p.residual == nullptr) continue;
    for_words(block.words, [&](unsigned word) {
      if (word >= block.words) return;
      const bool kept = stored || (some && escapes.has(word));
      const std::uint32_t encoded = kept ? 0 : load_element<std::uint32_t>(words + word * kWord);
      for (unsigned row = 0; row < kRows; ++row) {
        const std::uint64_t at = block.element(word, row);
        if (!block.holds(at)) continue;
        const float value = wanted(p.in, p.residual, at);
        keep_lost(p.residual, at, value, kept ? value : as_float(ThreeValues::value_of(encoded, row)));
      }
    });
    block_barrier();
  }
}

// What the header at `offset` says, or nothing where there is no whole block.
struct Header {
  std::uint64_t bytes;  // that follow
  bool stored;
  bool whole;

  PACELINE_DEVICE Header(const DecodeParameters& p, std::uint64_t offset) : bytes(0), stored(false), whole(false) {
    if (offset > p.bytes || p.bytes - offset < kHeader) return;
    const auto header = load_element<std::uint32_t>(p.in + offset);
    bytes = header & ~kStored;
    stored = (header & kStored) != 0;
    whole = bytes <= p.bytes - offset - kHeader;
  }
};

// Where blocks begin. One block of threads looks at as many headers at a time as it has threads, as if all blocks had
// the usual size; those up to the first that has not are found.
PACELINE_DEVICE void find(const DecodeParameters& p) {
  PACELINE_SHARED std::uint32_t usual_ones[kMostThreads / kWarp];
  constexpr std::uint64_t kUsual = kMostWords * kWord;
  const std::uint64_t blocks = blocks_of(p.elements);
  std::uint64_t offset = 0;
  bool whole = true;
  for (std::uint64_t index = 0; index < blocks && whole;) {
    const std::uint64_t own = offset + thread_in_block() * (kHeader + kUsual);
    const Header header(p, own);
    const bool usual = index + thread_in_block() < blocks && header.whole && header.bytes == kUsual;
    const std::uint32_t mask = warp_ballot(usual);
    if (lane() == 0) usual_ones[warp_in_block()] = mask;
    block_barrier();
    unsigned run = 0;  // of usual blocks
    while (run < threads_in_block() && (usual_ones[run / kWarp] >> run % kWarp & 1U) != 0)
      run += usual_ones[run / kWarp] == 0xffffffffU ? kWarp : 1;
    if (thread_in_block() < run) p.offsets[index + thread_in_block()] = own;
    index += run;
    offset += run * (kHeader + kUsual);
    if (run < threads_in_block() && index < blocks) {  // this one is not
      const Header odd(p, offset);
      whole = odd.whole;
      if (thread_in_block() == 0) p.offsets[index] = offset;
      ++index;
      offset += kHeader + odd.bytes;
    }
    block_barrier();
  }
  if (thread_in_block() != 0) return;
  p.offsets[blocks] = offset;
  if (!whole || offset != p.bytes) *p.refused = 1;
}

template <typename Sink>
PACELINE_DEVICE void decode(const DecodeParameters& p) {
  PACELINE_SHARED Escapes escapes;
  if (block_count(*p.refused != 0) != 0) return;  // another block may refuse meanwhile: all threads decide together
  for (std::uint64_t index = block_in_grid(); index < blocks_of(p.elements); index += blocks_in_grid()) {
    const Block block(index, p.elements);
    const Header header(p, p.offsets[index]);
    const std::byte* const words = p.in + p.offsets[index] + kHeader;
    if (header.stored) {
      const bool fits = header.bytes == block.elements * sizeof(float);
      for (unsigned i = thread_in_block(); fits && i < block.elements; i += threads_in_block())
        put<Sink>(p.out, block.first + i, load_element<float>(words + i * sizeof(float)));
      if (!fits && thread_in_block() == 0) *p.refused = 1;
      continue;
    }
    bool wrong = header.bytes < block.words * kWord;
    bool any = false;
    if (!wrong) {
      for_words(block.words, [&](unsigned word) {
        const auto encoded = word < block.words ? load_element<std::uint32_t>(words + word * kWord) : 0;
        const std::uint32_t mask = warp_ballot(is_escaped(encoded));
        if (lane() == 0) escapes.mask[word / kWarp] = mask;
        any |= is_escaped(encoded);
        wrong |= is_escaped(encoded) && encoded != ThreeValues::kEscaped;
        if (word >= block.words || is_escaped(encoded)) return;
        PACELINE_UNROLL
        for (unsigned row = 0; row < kRows; ++row) {
          const std::uint64_t at = block.element(word, row);
          if (block.holds(at)) put<Sink>(p.out, at, as_float(ThreeValues::value_of(encoded, row)));
        }
      });
    }
    const bool some = block_count(any) != 0;
    const unsigned escaped = some ? escapes.before(block.words) : 0;
    wrong |= header.bytes != block.words * kWord + escaped * kListed;
    if (block_count(wrong) != 0) {
      if (thread_in_block() == 0) *p.refused = 1;
    } else if (some) {
      for_words(block.words, [&](unsigned word) {
        if (word >= block.words || !escapes.has(word)) return;
        const std::byte* const list = words + block.words * kWord + escapes.before(word) * kListed;
        for (unsigned row = 0; row < kRows; ++row) {
          const std::uint64_t at = block.element(word, row);
          if (block.holds(at)) put<Sink>(p.out, at, load_element<float>(list + row * sizeof(float)));
        }
      });
    }
    block_barrier();  // before the masks are overwritten
  }
}

}  // namespace paceline::device::three_in_one
