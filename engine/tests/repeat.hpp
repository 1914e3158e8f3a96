// Long data whose values come again after a while. To make and to compare them one by one takes longer than the
// collectives under test, above all under sanitizers; copies and comparisons of bytes do not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace paceline::test {

// A prime: it divides no chunk, no block and no page, so that whatever is lost, doubled or misplaced shows.
inline constexpr std::size_t kPeriod = 251;  // values

// Copies the first `period` values to all that follow them.
template <typename T>
void repeat(std::span<T> values, std::size_t period = kPeriod) {
  for (std::size_t at = period; at < values.size(); at += period)
    std::copy_n(values.data(), std::min(period, values.size() - at), values.data() + at);
}

// `each(i)` for every i up to the period, and these again and again.
template <typename T, typename Each>
void fill(std::span<T> values, const Each& each) {
  for (std::size_t i = 0; i < std::min(kPeriod, values.size()); ++i) values[i] = static_cast<T>(each(i));
  repeat(values);
}

template <typename T, typename Each>
std::vector<T> filled(std::size_t count, const Each& each) {
  std::vector<T> values(count);
  fill(std::span(values), each);
  return values;
}

// Compares vectors or spans byte by byte.
template <typename A, typename B>
bool same_bits(const A& a, const B& b) {
  const auto one = std::as_bytes(std::span(a));
  const auto other = std::as_bytes(std::span(b));
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

}  // namespace paceline::test
