#include "failure/error.hpp"

#include <algorithm>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kLongestMessage = 1000;
constexpr std::size_t kLongestCulprit = 400;
constexpr std::size_t kHead = 1 + sizeof(std::uint16_t);  // bytes: the kind, and the length of the culprit

// Returns the beginning of UTF-8 text, of so many bytes at most, with no part of a character at its end.
std::string_view beginning(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  while (bytes > 0 && continues(bytes)) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

std::string encoded(const Error& error) {
  const std::string_view culprit = beginning(error.culprit, kLongestCulprit);
  const auto length = static_cast<std::uint16_t>(culprit.size());
  std::string payload(kHead, '\0');
  payload[0] = static_cast<char>(error.kind);
  std::memcpy(&payload[1], &length, sizeof length);
  return payload.append(culprit).append(beginning(error.message, kLongestMessage));
}

Error decoded(std::span<const std::byte> payload) {
  std::uint16_t length = 0;
  if (payload.size() < kHead || payload[0] > std::byte{static_cast<unsigned char>(ErrorKind::invalid)}) return {};
  std::memcpy(&length, &payload[1], sizeof length);
  const std::string_view text(reinterpret_cast<const char*>(payload.data()) + kHead, payload.size() - kHead);
  if (length > std::min(text.size(), kLongestCulprit)) return {};
  return {static_cast<ErrorKind>(payload[0]), std::string(text.substr(length, kLongestMessage)),
          std::string(text.substr(0, length))};
}

}  // namespace paceline
