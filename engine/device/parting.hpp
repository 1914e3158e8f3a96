#pragma once

#include <chrono>
#include <thread>

#include "calibration/device.hpp"
#include "device/driver.hpp"
#include "failure/error.hpp"

namespace paceline::device {

// Does the last work of something that goes away, of which nobody could hear that it failed. Returns whether it did.
template <typename Work>
bool try_to(Work&& work) {
  try {
    work();
    return true;
  } catch (const DriverError&) {
    return false;
  } catch (const Failure&) {
    return false;
  }
}

// Waits a moment for a condition, which nobody rings for. Returns whether it has come true.
template <typename Condition>
bool comes_true(Condition&& condition) {
  constexpr auto kParting = std::chrono::seconds(1);
  const auto deadline = std::chrono::steady_clock::now() + kParting;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(calibration::kDeviceLook);
  }
  return true;
}

}  // namespace paceline::device
