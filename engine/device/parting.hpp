#pragma once

#include "device/driver.hpp"
#include "failure/error.hpp"

namespace paceline::device {

// Does the last work of something that goes away, of which nobody could hear that it failed.
template <typename Work>
void try_to(Work&& work) {
  try {
    work();
  } catch (const DriverError&) {
  } catch (const Failure&) {
  }
}

}  // namespace paceline::device
