// Counts the ranks that have answered a question, for two questions at a time, until all have.
#pragma once

#include <array>
#include <cstdint>

namespace paceline {

struct Tally {
  // A rank has answered `question` with `number`. Returns true for the last of `size` ranks: then `differed` says
  // whether answers differed, and counting begins anew.
  bool take(std::uint8_t question, std::uint64_t number, int size) {
    Counted& counted = questions[question & 1];
    if (counted.ranks > 0 && counted.number != number) counted.differ = true;
    counted.number = number;
    if (++counted.ranks < size) return false;
    differed = counted.differ;
    counted = {};
    return true;
  }

  struct Counted {
    int ranks = 0;
    std::uint64_t number = 0;
    bool differ = false;
  };
  std::array<Counted, 2> questions;
  bool differed = false;
};

}  // namespace paceline
