// Devices: constants of device/. No device was at hand: none of them was measured yet.
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::calibration {

// Bytes of the largest buffer of a call up to which device memory goes through the host at once.
// Found: by hand, the lower end of the 8 to 32 KiB that A. A. Awan et al. found for MPI (CCGRID 2019).
// Off by 2: not measured.
inline constexpr std::size_t kReducedOnHost = std::size_t{8} << 10;
// Bytes that a rank brings along up to which it copies them to where all see them. It is also the size of a rank's
// scratch memory on the device, which it has twice. Found: by hand, between the limits of vLLM's one-shot all-reduce
// for 2 and 8 devices (64 MiB and 256 KiB). Off by 2: not measured.
inline constexpr std::size_t kDeviceOneShot = std::size_t{512} << 10;
// Bytes that pass through pinned memory at once; two such chunks are under way.
// Found: by hand. Off by 2: not measured.
inline constexpr std::size_t kStagedChunk = std::size_t{4} << 20;
// The host looks whether the device has come so far after this long; later again after so many parts of the time that
// it has taken already, and at the latest after the last of these. Found: by hand: a part in 16 adds 6 % at most. Off
// by 2: not measured.
inline constexpr std::chrono::microseconds kDeviceLook{50};
inline constexpr int kDeviceLookPart = 16;
inline constexpr std::chrono::milliseconds kLongestDeviceLook{5};
// A rank whose memory cannot be opened may have died: the engine hears of that within this time, or it has not.
// Found: by hand: the kernel closes the sockets of a process when that ends. Off by 2: an error that blames the memory
// of a living rank comes as much later.
inline constexpr std::chrono::seconds kDeathIsHeard{3};

}  // namespace paceline::calibration
