#pragma once

#include <cstddef>

namespace paceline {

// The next multiple of `to`.
constexpr std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace paceline
