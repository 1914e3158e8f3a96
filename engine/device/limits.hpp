#pragma once

#include <cstddef>

#include "calibration/device.hpp"

namespace paceline::device {

// Up to how many bytes a collective of device memory goes which way. All ranks of a group have the same.
struct Limits {
  std::size_t host = calibration::kReducedOnHost;      // of the largest buffer of a call, through the host
  std::size_t one_shot = calibration::kDeviceOneShot;  // that a rank brings along, copied to where all see them
  bool measured = false;

  bool operator==(const Limits&) const = default;
};

}  // namespace paceline::device
