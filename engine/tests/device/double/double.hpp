// A stand-in for NVIDIA's driver library, for tests where there is no device. It is built as libcuda.so.1, and a
// process that loads it before the engine looks for a driver gets it. It is in no wheel, and no figure is taken on it.
//
// "Device memory" is shared memory, and another process opens it through /proc, so that it cannot once the owner is
// gone. A stream is a thread, which looks now and then at a word that it waits for. Kernels are the engine's own,
// compiled for the host. What the stand-in promises is what the driver API's reference promises, and less where that
// helps to find mistakes: no stream waits for another one unless it was told to, the default one neither.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "device/cuda.hpp"
#include "device/pointers.hpp"

namespace paceline::device::fake {

// Returns the result that a test wants this call to have, or success; counts the call. Each function of the driver
// begins with this.
Result called(const char* function);
// A kernel begins: waits while a test holds it.
void kernel_begins();

// By which processes see whether they have the same device.
std::atomic<unsigned char>& own_number();
// Whether memory of another device can be opened.
std::atomic<bool>& reaches_others();

// Memory of the device, which other processes can open.
struct Shared {
  int fd = -1;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  // part of its name, by which another process sees that it opened the right one
  void* data = nullptr;
};

Shared make_shared(std::size_t bytes);
void close_shared(Shared& one);
IpcHandle handle_of(const Shared& one);
// Opens what another process has made. Returns invalid_handle if that is gone, invalid_context if it is this process,
// peer_access_unsupported if it is on a device that this one does not reach.
Result open_shared(const IpcHandle& handle, Shared& opened);

struct Allocation {
  Shared memory;  // without `data` for memory of the host
  Memory what;
};

// What this process has. It is never destroyed: threads of streams may outlive static objects.
struct State {
  std::mutex mutex;
  std::map<Address, Allocation> allocations;
  std::map<Address, Shared> opened;
  std::uint64_t next_buffer = 1;
  int contexts = 0;  // retained
  int events = 0;
  int streams = 0;
};
State& state();

// The allocation that holds the address; null if none does. The caller holds the mutex.
Allocation* holder(Address address);

}  // namespace paceline::device::fake

struct CUctx_st {};
struct CUmod_st {};
struct CUfunc_st {
  std::string name;
};

// Work under way keeps it, whoever destroys the event meanwhile.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;  // calls of cuEventRecord
  std::uint64_t done = 0;      // the last of them whose work is over
};

struct CUevent_st {
  std::shared_ptr<EventState> at = std::make_shared<EventState>();
};

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool busy = false;
  bool ends = false;
  bool captures = false;

  void add(std::function<void()> one);
  void drain();
};

namespace paceline::device::fake {

// The size of the struct that a kernel takes; 0 if it is not one of those that the engine starts so far.
std::size_t parameter_bytes(std::string_view kernel);

// The stream that a handle stands for: null, 1 and 2 are default streams.
CUstream_st& stream_of(StreamHandle handle);

}  // namespace paceline::device::fake
