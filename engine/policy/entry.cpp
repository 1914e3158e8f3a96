#include "policy/entry.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "failure/error.hpp"

namespace paceline {

namespace {

// A flag of `rest`.
constexpr std::uint8_t kLastPart = 1;

}  // namespace

std::optional<std::span<const std::uint64_t>> take_entry(std::span<const std::uint64_t>& words) {
  if (words.empty()) return std::nullopt;
  const EntryHead head = head_of(words[0]);
  if (head.kind < EntryKind::define || head.kind > kLastKind || head.words == 0 || head.words > words.size())
    return std::nullopt;
  const auto entry = words.first(head.words);
  words = words.subspan(head.words);
  return entry;
}

void put_text(Words& words, std::string_view text) {
  words.push_back(text.size());
  const std::size_t begin = words.size();
  words.resize(begin + (text.size() + 7) / 8);
  if (!text.empty()) std::memcpy(&words[begin], text.data(), text.size());
}

std::optional<std::string> take_text(std::span<const std::uint64_t>& words) {
  if (words.empty() || words[0] > kLongestText) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(words[0]);
  const std::size_t length = (bytes + 7) / 8;
  if (words.size() - 1 < length) return std::nullopt;
  std::string text(bytes, '\0');
  if (bytes > 0) std::memcpy(text.data(), &words[1], bytes);
  words = words.subspan(1 + length);
  return text;
}

void put_request(Words& words, const Request& request) {
  words.push_back(request.what.count);
  words.push_back(static_cast<std::uint32_t>(request.what.root) |
                  std::uint64_t{static_cast<std::uint8_t>(request.what.collective)} << 32 |
                  std::uint64_t{static_cast<std::uint8_t>(request.what.dtype)} << 40 |
                  std::uint64_t{static_cast<std::uint8_t>(request.what.op)} << 48 |
                  std::uint64_t{static_cast<std::uint8_t>(request.what.codec)} << 56);
  words.push_back(std::bit_cast<std::uint64_t>(request.prescale));
  words.push_back(std::bit_cast<std::uint64_t>(request.postscale));
  words.push_back(request.bundle.id);
  words.push_back(request.bundle.size | std::uint64_t{request.on_device} << 32);
  put_text(words, request.name);
  put_text(words, request.shape);
}

std::optional<Request> take_request(std::span<const std::uint64_t>& words) {
  if (words.size() < 8) return std::nullopt;
  Request request;
  request.what.count = words[0];
  request.what.root = static_cast<std::int32_t>(words[1]);
  const auto collective = static_cast<std::uint8_t>(words[1] >> 32);
  const auto dtype = static_cast<std::uint8_t>(words[1] >> 40);
  const auto op = static_cast<std::uint8_t>(words[1] >> 48);
  const auto codec = static_cast<std::uint8_t>(words[1] >> 56);
  if (collective >= kCollectiveNames.size() || dtype >= kDTypeNames.size() || op >= kOpNames.size() ||
      codec >= kCodecNames.size())
    return std::nullopt;
  request.what.collective = static_cast<Collective>(collective);
  request.what.dtype = static_cast<DType>(dtype);
  request.what.op = static_cast<Op>(op);
  request.what.codec = static_cast<Codec>(codec);
  request.prescale = std::bit_cast<double>(words[2]);
  request.postscale = std::bit_cast<double>(words[3]);
  request.bundle = {words[4], static_cast<std::uint32_t>(words[5])};
  request.on_device = (words[5] >> 32 & 1) != 0;
  request.bytes = agreed_bytes(request);
  words = words.subspan(6);
  auto name = take_text(words);
  if (!name) return std::nullopt;
  auto shape = take_text(words);
  if (!shape) return std::nullopt;
  request.name = std::move(*name);
  request.shape = std::move(*shape);
  return request;
}

Request read_request(std::span<const std::uint64_t>& words) {
  if (auto request = take_request(words)) return *std::move(request);
  throw Failure(ErrorKind::invalid, "an entry of the log has no description where it should");
}

std::string read_text(std::span<const std::uint64_t>& words) {
  if (auto text = take_text(words)) return *std::move(text);
  throw Failure(ErrorKind::invalid, "an entry of the log has no text where it should");
}

std::vector<Words> rest_entries(std::span<const std::uint64_t> words, std::size_t longest, std::uint32_t number) {
  std::vector<Words> entries;
  do {
    const auto part = words.first(std::min(words.size(), longest - 1));
    words = words.subspan(part.size());
    Words& entry = entries.emplace_back();
    entry.push_back(pack({EntryKind::rest, static_cast<std::uint8_t>(words.empty() ? kLastPart : 0), 0, number}));
    entry.insert(entry.end(), part.begin(), part.end());
    close_entry(entry, 0);
  } while (!words.empty());
  return entries;
}

bool take_rest(Words& words, std::span<const std::uint64_t> entry) {
  words.insert(words.end(), entry.begin() + 1, entry.end());
  return head_of(entry[0]).flags == kLastPart;
}

}  // namespace paceline
