// A set of numbers as intervals, and what is missing in it.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline {

class Intervals {
 public:
  struct Interval {
    std::size_t begin;
    std::size_t end;
  };

  void add(std::size_t begin, std::size_t end);
  // Returns the parts of [begin, end) that are not in the set, in order.
  std::vector<Interval> gaps(std::size_t begin, std::size_t end) const;

 private:
  std::vector<Interval> intervals_;  // in order, none of them empty, and none touches the next
};

}  // namespace paceline
