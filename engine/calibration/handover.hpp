// Handing over in shared memory: constants of segment/handover.
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::calibration {

// Bytes from which on a copy may go around the caches. Less is most often copied to lines that are still in the cores'
// own caches.
// Found: on machine A while its cores shared no cache: 8 KiB took 5.3 us by plain stores and 2.5 us around the caches.
// Off by 2: not clearly above the noise (2 ranks).
inline constexpr std::size_t kLeastStreamed = std::size_t{8} << 10;
// Time of a probe of 32 lines from which on cores are far apart.
// Found: on machine A, where a probe takes 50 to 200 ns near and 600 to 1000 ns far.
// Off by 2: at 200 ns near probes begin to count as far, at 800 ns far ones as near; both cost up to the factor of 3 to
// 4 that the right choice gains far apart (32 KiB: 16.6 to 4.7 us).
inline constexpr std::chrono::nanoseconds kFarProbe{400};
// Probes in a row that count. One that takes long may have been interrupted; one that does not may have met lines that
// nobody had read.
// Found: by hand on machine A. Off by 2: kFarProbesInRow not clearly above the noise (2 ranks), kNearProbesInRow not
// clearly above the noise (2 ranks); they delay the change by so many times kCopiesPerProbe copies.
inline constexpr int kFarProbesInRow = 2;
inline constexpr int kNearProbesInRow = 16;
// Large copies from one probe to the next.
// Found: by hand; a probe of 1 us at most is spread over 16 copies of 1 us and more. Off by 2: within noise (2 ranks).
inline constexpr unsigned kCopiesPerProbe = 16;

}  // namespace paceline::calibration
