// The part of NVIDIA's driver interface that Paceline uses, declared here so that it builds where no CUDA is installed.
// The names and numbers are those of CUDA's driver API reference; a test compares them with cuda.h where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

namespace paceline::device {

using Address = std::uint64_t;  // CUdeviceptr
using Ordinal = int;            // CUdevice
using ContextHandle = CUctx_st*;
using EventHandle = CUevent_st*;
using FunctionHandle = CUfunc_st*;
using ModuleHandle = CUmod_st*;
using StreamHandle = CUstream_st*;

enum class Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  peer_access_unsupported = 217,
  unsupported_ptx_version = 222,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  not_supported = 801,
  system_driver_mismatch = 803,
};

enum class DeviceAttribute : int { multiprocessors = 16 };

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start = 11,
  range_size = 12,
  mempool_handle = 17,
};

enum class MemoryType : unsigned { unregistered = 0, host = 1, device = 2 };

// What a stream does with a word of 32 bits, one of a batch; CUDA's CUstreamBatchMemOpParams.
enum class MemoryOperation : unsigned { wait = 1, write = 2 };

struct StreamOperation {
  MemoryOperation what = MemoryOperation::wait;
  Address word = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;  // a wait ends when (int32)(*word - value) >= 0; before a write comes a fence of the whole system
  Address alias = 0;   // the driver's
  std::uint64_t unused = 0;
};
static_assert(sizeof(StreamOperation) == 48);

enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kIpcLazyPeerAccess = 1;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostDeviceMap = 2;

// What another process needs to reach memory of this one.
struct IpcHandle {
  std::array<std::byte, 64> bytes{};
  bool operator==(const IpcHandle&) const = default;
};
static_assert(sizeof(IpcHandle) == 64);

struct Uuid {
  std::array<std::byte, 16> bytes{};
  bool operator==(const Uuid&) const = default;
};

}  // namespace paceline::device
