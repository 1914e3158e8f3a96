// A piece of a message, on its way from a socket to where the message goes.
#pragma once

#include <array>
#include <cstddef>

#include "link/link.hpp"

namespace paceline {

class Piece {
 public:
  // `sink` is null if nobody wants the piece any more: its bytes are dropped.
  void begin(StreamSink* sink, std::size_t size);
  std::size_t remaining() const { return remaining_; }
  // Returns where all that remains may be written at once, after which it `arrived`; null if it has to be taken.
  std::byte* window();
  void arrived(std::size_t size);
  // Hands on what has come of the piece. A sink that combines gets whole elements (multiples of 16 bytes), but for the
  // very end.
  void take(const std::byte* data, std::size_t size);
  // Nobody wants what goes to this sink any more.
  void forget(const StreamSink& sink);

 private:
  void end();

  StreamSink* sink_ = nullptr;
  std::size_t remaining_ = 0;  // bytes that have yet to come
  std::array<std::byte, 16> carry_;
  std::size_t carried_ = 0;
};

}  // namespace paceline
