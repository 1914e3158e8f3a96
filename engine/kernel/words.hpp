// Elements in memory of any alignment.
// Everything is in an anonymous namespace: each instruction set must keep its own copy.
#pragma once

#include <cstddef>

namespace paceline {
namespace {

template <typename T>
struct Loose {
  typedef T type __attribute__((aligned(1), may_alias));
};

template <typename T>
const typename Loose<T>::type* at(const std::byte* base, std::size_t index) {
  return reinterpret_cast<const typename Loose<T>::type*>(base) + index;
}

}  // namespace
}  // namespace paceline
