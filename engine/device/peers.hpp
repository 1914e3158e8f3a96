// Memory of other processes, mapped into this one by CUDA's IPC, and handles of this process's memory for them.
//
// To open a handle takes the driver long, so it is opened once per allocation and stays open until its memory was
// freed, which shows when another allocation comes from the same address, or until the group ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "device/pointers.hpp"

namespace paceline::device {

// How a rank tells the others where they find memory of one of its allocations.
struct Shown {
  IpcHandle handle;
  Address base = 0;             // in the process that shows it
  std::uint64_t length = 0;     // bytes of the allocation
  std::uint64_t buffer_id = 0;  // there
};

// Handles of this process's memory. The context of the device must be current wherever this is used.
class ShownMemory {
 public:
  explicit ShownMemory(const Driver& driver) : driver_(driver) {}

  // Returns what another process needs to open this memory, which is of Kind::device. Throws DriverError.
  const Shown& show(const Memory& memory);

 private:
  const Driver& driver_;
  std::map<Address, Shown> shown_;
};

// Memory of other processes. The context of the device must be current wherever this is used or destroyed.
class PeerMemory {
 public:
  explicit PeerMemory(const Driver& driver) : driver_(driver) {}
  ~PeerMemory();  // the device uses nothing of it any more
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Returns where the allocation begins here, for this call and later ones. Throws DriverError, for example if the rank
  // is gone.
  Address open(int rank, const Shown& shown, std::uint32_t call);
  // Closes what has given way to newer memory, if the device is through with the calls that may use it.
  void close_freed(const std::function<bool(std::uint32_t call)>& finished);

  std::size_t size() const { return opened_.size() + freed_.size(); }

 private:
  struct Opened {
    std::uint64_t buffer_id;
    std::uint64_t length;
    Address here;
  };
  using All = std::map<std::pair<int, Address>, Opened>;
  struct Freed {
    Address here;
    std::uint32_t call;  // earlier ones may use it
  };

  All::iterator forget(All::iterator one, std::uint32_t call);

  const Driver& driver_;
  All opened_;  // by rank and base
  std::vector<Freed> freed_;
};

}  // namespace paceline::device
