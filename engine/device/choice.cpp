#include "device/choice.hpp"

#include <array>

#include "calibration/device.hpp"

namespace paceline::device {

const char* name_of(Path path) {
  constexpr std::array<const char*, 5> names = {"host", "one_shot", "two_shot", "direct", "staged"};
  return names[static_cast<std::size_t>(path)];
}

Choice choose(const Call& call, std::size_t ranks, const std::string& unreachable) {
  const auto up_to = [](std::size_t limit) { return "at most " + std::to_string(limit >> 10) + " KiB"; };
  const std::size_t block = call.count * size_of(call.dtype);
  const std::size_t whole = call.has_block_for_each() ? block * ranks : block;
  const std::size_t brought = call.collective == Collective::reduce_scatter ? whole : block;
  if (!call.uneven && whole <= calibration::kReducedOnHost)
    return {Path::host, up_to(calibration::kReducedOnHost) + " go through the host"};
  if (!unreachable.empty()) return {Path::staged, unreachable};
  if (!call.uneven && brought <= calibration::kDeviceOneShot)
    return {Path::one_shot, up_to(calibration::kDeviceOneShot) + " of a rank are copied to where all see them"};
  if (call.collective == Collective::all_reduce)
    return {Path::two_shot,
            "every rank combines its part of more than " + std::to_string(calibration::kDeviceOneShot >> 10) + " KiB"};
  if (call.uneven) return {Path::direct, "ranks may have different amounts, which they learn when they meet"};
  return {Path::direct, "every rank takes what it needs from where the others have more than " +
                            std::to_string(calibration::kDeviceOneShot >> 10) + " KiB"};
}

}  // namespace paceline::device
