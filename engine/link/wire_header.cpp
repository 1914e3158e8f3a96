#include "link/wire_header.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace paceline {
namespace {

std::array<std::byte, sizeof(Header)> bytes_of(const Header& header) {
  return std::bit_cast<std::array<std::byte, sizeof(Header)>>(header);
}

std::size_t ones(std::byte mask) { return static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(mask))); }

}  // namespace

HeaderWriter::HeaderWriter() : last_(bytes_of({})) {}

WireHeader HeaderWriter::write(const Header& header) {
  const auto bytes = bytes_of(header);
  std::byte words{0};
  std::array<std::byte, WireHeader::kWords> masks{};
  std::array<std::byte, sizeof(Header)> changed{};
  std::size_t words_changed = 0;
  std::size_t bytes_changed = 0;
  for (std::size_t word = 0; word < WireHeader::kWords; ++word) {
    if (std::memcmp(&bytes[8 * word], &last_[8 * word], 8) == 0) continue;
    words |= std::byte{1} << word;
    for (std::size_t i = 0; i < 8; ++i) {
      if (bytes[8 * word + i] == last_[8 * word + i]) continue;
      masks[words_changed] |= std::byte{1} << i;
      changed[bytes_changed++] = bytes[8 * word + i];
    }
    ++words_changed;
  }
  last_ = bytes;
  WireHeader wire{{WireHeader::kMark, std::byte{count_++}, words}};
  auto end = wire.bytes.begin() + WireHeader::kLeast;
  end = std::copy_n(masks.begin(), words_changed, end);
  end = std::copy_n(changed.begin(), bytes_changed, end);
  wire.size = static_cast<std::size_t>(end - wire.bytes.begin());
  return wire;
}

HeaderReader::State HeaderReader::read(std::span<const std::byte>& data) {
  while (true) {
    const std::size_t wanted = size();
    if (wire_.size == wanted) break;
    if (data.empty()) return State::partial;
    const std::size_t used = std::min(wanted - wire_.size, data.size());
    std::copy_n(data.begin(), used, wire_.bytes.begin() + static_cast<std::ptrdiff_t>(wire_.size));
    wire_.size += used;
    data = data.subspan(used);
    if (wire_.size >= WireHeader::kLeast && !starts_well()) return State::garbled;
  }
  apply();
  wire_.size = 0;
  ++count_;
  return is_sane(header_) ? State::complete : State::garbled;
}

std::size_t HeaderReader::size() const {
  if (wire_.size < WireHeader::kLeast) return WireHeader::kLeast;
  const std::size_t masks_end = WireHeader::kLeast + ones(wire_.bytes[2]);
  if (wire_.size < masks_end) return masks_end;
  std::size_t end = masks_end;
  for (std::size_t i = WireHeader::kLeast; i < masks_end; ++i) end += ones(wire_.bytes[i]);
  return end;
}

bool HeaderReader::starts_well() const {
  return wire_.bytes[0] == WireHeader::kMark && wire_.bytes[1] == std::byte{count_} &&
         wire_.bytes[2] >> WireHeader::kWords == std::byte{0};
}

void HeaderReader::apply() {
  auto bytes = bytes_of(header_);
  std::size_t mask = WireHeader::kLeast;
  std::size_t from = mask + ones(wire_.bytes[2]);
  for (std::size_t word = 0; word < WireHeader::kWords; ++word) {
    if ((wire_.bytes[2] >> word & std::byte{1}) == std::byte{0}) continue;
    for (std::size_t i = 0; i < 8; ++i)
      if ((wire_.bytes[mask] >> i & std::byte{1}) != std::byte{0}) bytes[8 * word + i] = wire_.bytes[from++];
    ++mask;
  }
  header_ = std::bit_cast<Header>(bytes);
}

}  // namespace paceline
