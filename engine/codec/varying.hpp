// Blocks whose size depends on the data. They begin with a word: the bytes that follow, and in its highest bit whether
// these are the elements as they were, because encoding them would not have paid.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);
constexpr std::uint32_t kStored = 1U << 31;

inline std::size_t write_header(std::byte* out, std::size_t bytes, std::uint32_t stored = 0) {
  const std::uint32_t header = static_cast<std::uint32_t>(bytes) | stored;
  std::memcpy(out, &header, sizeof header);
  return kHeader + bytes;
}

inline std::size_t store_block(const std::byte* in, std::size_t bytes, std::byte* out) {
  std::memcpy(out + kHeader, in, bytes);
  return write_header(out, bytes, kStored);
}

struct Payload {
  const std::byte* data = nullptr;  // null: there is no whole block
  std::size_t bytes = 0;
  bool stored = false;
};

// The payload of the block that `in` begins with; `bytes` lie there.
inline Payload payload_of(const std::byte* in, std::size_t bytes) {
  if (bytes < kHeader) return {};
  std::uint32_t header;
  std::memcpy(&header, in, sizeof header);
  const std::size_t size = header & ~kStored;
  if (size > bytes - kHeader) return {};
  return {in + kHeader, size, (header & kStored) != 0};
}

}  // namespace
}  // namespace paceline
