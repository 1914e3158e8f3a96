#include "program/intervals.hpp"

#include <algorithm>

namespace paceline {

void Intervals::add(std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const auto first = std::ranges::lower_bound(intervals_, begin, {}, &Interval::end);
  auto last = first;
  for (; last != intervals_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    intervals_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    intervals_.erase(first + 1, last);
  }
}

std::vector<Intervals::Interval> Intervals::gaps(std::size_t begin, std::size_t end) const {
  std::vector<Interval> found;
  auto next = std::ranges::upper_bound(intervals_, begin, {}, &Interval::end);
  for (; next != intervals_.end() && next->begin < end; ++next) {
    if (begin < next->begin) found.push_back({begin, next->begin});
    begin = next->end;
  }
  if (begin < end) found.push_back({begin, end});
  return found;
}

}  // namespace paceline
