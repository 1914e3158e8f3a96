// The header of a frame on a socket: a mark, a running count, and what differs from the header before it. Ranks do much
// the same again and again, so that a header takes 5 bytes more often than 50. A stream out of step is noticed at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "link/header.hpp"

namespace paceline {

// A header consists of the mark, the count modulo 256, a bit for each word that differs from the header before, a bit
// for each byte of such a word that differs, and these bytes.
struct WireHeader {
  static constexpr std::byte kMark{0xb5};
  static constexpr std::size_t kWords = sizeof(Header) / 8;
  static constexpr std::size_t kLeast = 3;

  std::array<std::byte, kLeast + kWords + sizeof(Header)> bytes{};
  std::size_t size = 0;
};

class HeaderWriter {
 public:
  HeaderWriter();
  WireHeader write(const Header& header);

 private:
  std::array<std::byte, sizeof(Header)> last_;
  std::uint8_t count_ = 0;
};

class HeaderReader {
 public:
  enum class State : std::uint8_t { partial, complete, garbled };

  // Takes the bytes that belong to the next header off the front of `data`.
  State read(std::span<const std::byte>& data);
  // The last header that was complete.
  const Header& header() const { return header_; }

 private:
  // The header that is coming in, as far as its bytes are here.
  std::size_t size() const;
  bool starts_well() const;
  void apply();

  WireHeader wire_;
  Header header_;
  std::uint8_t count_ = 0;
};

}  // namespace paceline
