#include "memory/cache.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <string>

#include "calibration/caches.hpp"

namespace paceline {
namespace {

constexpr std::size_t kKibibyte = 1024;

// Returns the bytes of the data or unified cache of `level`, as the kernel lists it for the first CPU, or 0.
std::size_t size_of_level(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int found = 0;
    std::string type;
    std::size_t kibibytes = 0;  // the kernel prints "48K"
    std::ifstream(folder + "level") >> found;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> kibibytes;
    if (found == level && type != "Instruction") return kibibytes * kKibibyte;
  }
  return 0;
}

Caches find_caches() {
  const std::size_t first = size_of_level(1);
  const std::size_t second = size_of_level(2);
  return {first > 0 ? first : 32 * kKibibyte, second > 0 ? second : 1024 * kKibibyte};
}

}  // namespace

std::size_t Caches::pass() const {
  return std::clamp(std::bit_floor(first / calibration::kPassesPerFirstCache), std::size_t{4} * kKibibyte,
                    std::size_t{64} * kKibibyte);
}

std::size_t Caches::block() const {
  return std::clamp(std::bit_floor(second / calibration::kBlocksPerSecondCache), std::size_t{16} * kKibibyte,
                    std::size_t{512} * kKibibyte);
}

std::size_t Caches::turnover() const {
  return std::clamp(std::bit_ceil(calibration::kSecondCachesPerTurnover * second), std::size_t{512} * kKibibyte,
                    std::size_t{4096} * kKibibyte);
}

const Caches& caches() {
  static const Caches found = find_caches();
  return found;
}

}  // namespace paceline
