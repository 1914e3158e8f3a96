// Named tensors: constants of coordinator/, policy/holding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::calibration {

// Bytes of a tensor from which on it is reduced where it lies: two copies of so many bytes take about as long as one
// more collective.
// Found: on machine B, by that reckoning. Off by 2: 1.36 times as long at worst (half, named 48 KiB, named tensors of 2
// ranks).
inline constexpr std::size_t kReducedAlone = std::size_t{64} << 10;
// Bytes of a batch up to which the caller that submits its last tensor packs it; the rest is for whoever waits.
// Found: by hand. Off by 2: within noise (named tensors of 2 ranks).
inline constexpr std::uint64_t kPackedBySubmitter = std::uint64_t{32} << 10;
// Bytes that are packed in one step.
// Found: by hand; some 20 us. Off by 2: 1.05 times as long at worst (twice, named 48 KiB, named tensors of 2 ranks).
inline constexpr std::size_t kPackedPerStep = std::size_t{256} << 10;
// Bytes of a collective, or of a batch, from which on its time is that of the links, so that it is counted for plans
// that follow the network. Found: by hand. Off by 2: within noise (named tensors of 2 ranks; 1+1 at 10 Gbit/s).
inline constexpr std::uint64_t kLargeCall = std::uint64_t{1} << 20;
// Bytes that are held back at least and at most while nobody waits for them; between the two an eighth, kHeldPart, of
// what has gone out.
// Found: on machine B with `paceline bench coordination`, under load: holding up to 4 MiB in place of 1 took 0.74 and
// 0.75 of the CPU time of agreeing in two runs, and 2.3 times in a third.
// Off by 2: kLeastHeld within noise (named tensors of 2 ranks), kMostHeld not clearly above the noise (named tensors of
// 2 ranks), kHeldPart within noise (named tensors of 2 ranks).
inline constexpr std::uint64_t kLeastHeld = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostHeld = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kHeldPart = 8;

// Seconds after which a rank of the policy `graph` takes it that a caller which is not blocked submits nothing more:
// it then negotiates. Found: by hand; longer than a layer takes between two gradients on few cores that others share.
// Off by 2: within noise (named tensors of 2 ranks); a step that is not as foreseen takes so much longer or shorter.
inline constexpr double kGraphPatience = 1;

}  // namespace paceline::calibration
