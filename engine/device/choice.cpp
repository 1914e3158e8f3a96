#include "device/choice.hpp"

#include <array>

#include "calibration/device.hpp"

namespace paceline::device {

const char* name_of(Path path) {
  constexpr std::array<const char*, 4> names = {"host", "one_shot", "two_shot", "staged"};
  return names[static_cast<std::size_t>(path)];
}

Choice choose(std::size_t bytes, const std::string& unreachable) {
  const auto up_to = [](std::size_t limit) { return "at most " + std::to_string(limit >> 10) + " KiB"; };
  if (bytes <= calibration::kReducedOnHost)
    return {Path::host, up_to(calibration::kReducedOnHost) + " are combined on the host"};
  if (!unreachable.empty()) return {Path::staged, unreachable};
  if (bytes <= calibration::kDeviceOneShot)
    return {Path::one_shot, up_to(calibration::kDeviceOneShot) + " are combined by every rank"};
  return {Path::two_shot,
          "every rank combines its part of more than " + std::to_string(calibration::kDeviceOneShot >> 10) + " KiB"};
}

}  // namespace paceline::device
