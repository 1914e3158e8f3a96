// Devices: constants of device/. No device was at hand: none of them was measured yet.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace paceline::calibration {

// Where ranks reach each other's memory, a group measures the next two when it begins (device/trials.hpp), and these
// are not used. They serve where it cannot: there are no kernels, no memory, or one rank.
// Bytes of the largest buffer of a call up to which device memory goes through the host.
// Found: by hand, the lower end of the 8 to 32 KiB that A. A. Awan et al. found for MPI (CCGRID 2019).
// Off by 2: not measured.
inline constexpr std::size_t kReducedOnHost = std::size_t{8} << 10;
// Bytes that a rank brings along up to which it copies them to where all see them. It is also the most that can be
// measured: the size of a rank's scratch memory on the device, which it has twice. Found: by hand, between the limits
// of vLLM's one-shot all-reduce for 2 and 8 devices (64 MiB and 256 KiB). Off by 2: not measured.
inline constexpr std::size_t kDeviceOneShot = std::size_t{512} << 10;
// Bytes that pass through pinned memory at once; two such chunks are under way.
// Found: by hand. Off by 2: not measured.
inline constexpr std::size_t kStagedChunk = std::size_t{4} << 20;
// The same where ranks reach each other's memory, and only what is small goes through the host.
// Found: by hand. Off by 2: a group pins four of them.
inline constexpr std::size_t kHostChunk = std::size_t{128} << 10;
// Bytes of the all-reduces that a group times each way when it begins. A limit is put midway between two of them, so it
// is off by 2 at most beside what the times are off by. Found: by hand, around the limits above.
inline constexpr std::array kDeviceTrials = {std::size_t{1} << 10, std::size_t{4} << 10, std::size_t{16} << 10,
                                             std::size_t{64} << 10, std::size_t{256} << 10};
// It begins no new round of them after so long or so many: the first collective of a group takes that much longer,
// twice where a round takes longer than that. Found: by hand, some hundredths of what NCCL takes to begin. Off by 2:
// fewer rounds, whose fastest is further from the truth.
inline constexpr std::chrono::milliseconds kDeviceTrialTime{10};
inline constexpr int kDeviceTrialRounds = 16;
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
// A kernel that another rank has started ends within this time, or never, because its device has failed. Found: by
// hand: all memory of a device crosses a slot of PCI Express in less. Off by 2: where another rank's device has failed,
// the error of a call comes as much later.
inline constexpr std::chrono::seconds kKernelEnds{10};

}  // namespace paceline::calibration
