#pragma once

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

}  // namespace paceline::device
