#include "failure/error.hpp"

#include <algorithm>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kLongestMessage = 1000;
constexpr std::size_t kLongestCulprit = 400;
constexpr std::size_t kHead = 1 + sizeof(std::uint16_t);  // bytes: the kind, and the length of the culprit

}  // namespace

std::string encoded(const Error& error) {
  const auto length = static_cast<std::uint16_t>(std::min(error.culprit.size(), kLongestCulprit));
  std::string payload(kHead, '\0');
  payload[0] = static_cast<char>(error.kind);
  std::memcpy(&payload[1], &length, sizeof length);
  return payload.append(error.culprit, 0, length).append(error.message, 0, kLongestMessage);
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
