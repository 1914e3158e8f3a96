// Messages: constants of message/, progress/collectives.
#pragma once

#include <cstddef>

namespace paceline::calibration {

// Bytes that an operation moves or combines in one step, before the loop looks at the others.
// Found: by hand; some 30 to 90 us at the 12 to 35 GB/s of machines A and B. Off by 2: not clearly above the noise (2
// ranks; 1+1 at 10 Gbit/s).
inline constexpr std::size_t kStepBytes = std::size_t{1} << 20;
// Bytes of a message in the arena from which on its receiver copies it around the caches: to fetch the lines that it
// writes would take a third of what memory carries, and the first of them would have left the caches by the last.
// Found: on machine A, where two processes that copied 64 MiB each at once, in pieces of 2 MiB, did so at 9.8 GB/s by
// memcpy and 13.3 around the caches (medians, at a load of 30); the bound itself by hand.
// Off by 2: not measured; it counts for messages of 4 to 16 MiB between ranks of a machine, and at most by the third.
inline constexpr std::size_t kLeastStreamedMessage = std::size_t{8} << 20;
// Bytes of each input that are combined in one pass, so that they stay in the second-level cache.
// Found: by hand on machine B. Off by 2: not clearly above the noise (1+1 at 10 Gbit/s).
inline constexpr std::size_t kCombinedBlock = std::size_t{128} << 10;
// Bytes up to which a reduction to a root between machines is one hop: latency counts more than what links carry.
// Found: by hand. Off by 2: 3.08 times as long at worst (twice, reduce 6 KiB, 2+3).
inline constexpr std::size_t kReducedAtOnce = 4096;
// Bytes of a collective from which on its messages between machines are encoded: for less, latency is what counts.
// Found: by hand, where plans stop to be chosen for latency. Off by 2: 3.76 times as long at worst (twice, encoded 96
// KiB, 2+3).
inline constexpr std::size_t kEncodedFrom = std::size_t{64} << 10;

}  // namespace paceline::calibration
