// All-reduces of device memory that fail.
#pragma once

#include "tests/device/processes.hpp"

namespace paceline::test {

inline constexpr std::size_t kSmall = 10'000;   // elements, in one shot
inline constexpr std::size_t kLarge = 500'000;  // in two

inline Error failed(DeviceRank& self, const Reduction& call) {
  return failure_of([&] { all_reduce(self, call)->wait(std::chrono::seconds(30)); });
}

}  // namespace paceline::test
