// Caches: constants of memory/cache.
#pragma once

#include <cstddef>

namespace paceline::calibration {

// The part of the first-level cache that a pass of a reduction fills, as a divisor: three inputs or outputs fit.
// Found: by counting. Off by 2: 1.80 times as long at worst (twice, all_gather 4 KiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kPassesPerFirstCache = 3;
// The part of the second-level cache that a block of a large exchange fills, as a divisor.
// Found: on machine B, where 64 to 256 KiB were within noise of each other.
// Off by 2: within noise there; the method tuner tries half and twice for large all-reduces.
inline constexpr std::size_t kBlocksPerSecondCache = 4;
// After so many second-level caches of bytes handed over, the same memory is written again.
// Found: on machine A. It took 32 KiB from 6.5 to 2.6 us and 256 KiB from 36.5 to 14.9 us between two ranks, compared
// with memory that the other core still holds.
// Off by 2: not measured; half lets lines stay in the other core's cache, twice takes twice the memory.
inline constexpr std::size_t kSecondCachesPerTurnover = 2;

}  // namespace paceline::calibration
