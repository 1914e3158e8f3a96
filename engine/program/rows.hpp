// The same part of each of several equal blocks that lie one behind the other: a chunk of a reduce-scatter. A plan sees
// these parts as one piece.
#pragma once

#include <algorithm>
#include <cstddef>

namespace paceline {

struct Rows {
  std::size_t width = 0;   // the bytes of a part
  std::size_t stride = 0;  // the bytes from one part to the next

  // Returns where byte `offset` of the piece lies, counted from the beginning of the first part.
  std::size_t at(std::size_t offset) const { return offset / width * stride + offset % width; }

  // Calls each(begin, bytes) for the bytes of [begin, end) in each part; parts that touch are one.
  template <typename Each>
  void split(std::size_t begin, std::size_t end, Each&& each) const {
    while (begin < end) {
      const std::size_t bytes = width == stride ? end - begin : std::min(end - begin, width - begin % width);
      each(begin, bytes);
      begin += bytes;
    }
  }
};

}  // namespace paceline
