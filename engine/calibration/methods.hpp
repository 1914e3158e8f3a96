// Methods in shared memory: constants of segment/method_tuner, shared/.
#pragma once

#include <cstddef>

namespace paceline::calibration {

// Bytes of a block below which no method is tried.
// Found: by hand. Off by 2: within noise (2 ranks).
inline constexpr std::size_t kSmallestBlock = std::size_t{16} << 10;
// Bytes from which on two ranks are expected to be quicker when they read each other's memory through the kernel, which
// copies each byte once where a pipe takes two copies; and from which on that is worth a try.
// Found: on machine B: 1 MiB takes 170 us and 130 through the pipe, 4 MiB 0.69 and 16 MiB 0.58 of the pipe's time.
// Off by 2: only the first calls of a size, as all methods are measured in them.
inline constexpr std::size_t kFetchedBytes = std::size_t{3} << 20;
inline constexpr std::size_t kMaybeFetchedBytes = std::size_t{256} << 10;
// Ranks up to which that is tried: each reads from all others.
// Found: on machine B, where 3 and more ranks were not quicker. Off by 2: 1.27 times as long at worst (twice,
// all_reduce 1 MiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kMostFetching = 4;
// Calls with which each method is tried. Their median counts: some calls are interrupted, some are lucky.
// Found: by hand on machine B. Off by 2: within noise (2 ranks); at most four methods are tried, so 20 calls of a size.
inline constexpr std::size_t kTries = 5;
// The share of the foreseen method's time below which another one replaces it. A smaller gain is noise.
// Found: by hand. Off by 2: not clearly above the noise (2 ranks).
inline constexpr double kClearly = 0.9;
// A call is unusual if it takes this many times as long as usual, or the usual time divided by this.
// Found: by hand on machine A, whose cores are near for some minutes and far apart for others, which changes large
// calls by a factor of 2 to 7. Off by 2: within noise (2 ranks).
inline constexpr double kUnusual = 1.5;
// Unusual calls in a row after which all methods are tried again, at first and at most: each try that changes nothing
// doubles it.
// Found: by hand on machine A. Off by 2: kPatience within noise (2 ranks), kMostPatience not clearly above the noise (2
// ranks).
inline constexpr std::size_t kPatience = 5;
inline constexpr std::size_t kMostPatience = 80;
// Bytes of the pieces that ranks claim when they reduce in place; and how many pieces a rank's region has, as far as
// these bounds allow.
// Found: by hand on machine B. Off by 2: kSmallestPiece not clearly above the noise (2 ranks; 4 ranks on 2 CPUs),
// kLargestPiece within noise (2 ranks; 4 ranks on 2 CPUs), kPiecesPerRegion within noise (2 ranks; 4 ranks on 2 CPUs).
inline constexpr std::size_t kSmallestPiece = std::size_t{16} << 10;
inline constexpr std::size_t kLargestPiece = std::size_t{256} << 10;
inline constexpr std::size_t kPiecesPerRegion = 4;
// Second-level caches of bytes, of all ranks together, up to which an exchange copies to slots: copies take more work
// and pay while all of them stay in the caches near the cores.
// Found: on machine A while its cores were near. Off by 2: not clearly above the noise (4 ranks on 2 CPUs).
inline constexpr std::size_t kSlotsOfAll = 3;
// Bytes up to which data that others can read where they lie are copied all the same: then nobody waits for readers.
// Found: on machine A, together with kSecondCachesPerTurnover. Off by 2: 1.74 times as long at worst (twice, all_gather
// 4 KiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kCopiedAnyway = std::size_t{4} << 10;

}  // namespace paceline::calibration
