// Memory of other processes, mapped into this one by CUDA's IPC, and handles of this process's memory for them.
//
// To open a handle takes the driver long, so it is opened once per allocation and stays open until its memory was
// freed, which shows when another allocation comes from the same address, or until the peer is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "device/pointers.hpp"

namespace paceline::device {

// How a rank tells the others where they find memory of one of its allocations.
struct Shown {
  IpcHandle handle;
  Address base = 0;             // in the process that shows it
  std::uint64_t length = 0;     // bytes of the allocation
  std::uint64_t buffer_id = 0;  // there
};

// The context of the device must be current wherever this is used or destroyed. Not thread-safe.
class PeerMemory {
 public:
  // `quiesce` returns once the device no longer uses what was opened. It is called before anything is closed.
  PeerMemory(const Driver& driver, std::function<void()> quiesce) : driver_(driver), quiesce_(std::move(quiesce)) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Returns what another process needs to open this memory, which is of Kind::device. Throws DriverError.
  const Shown& show(const Memory& memory);
  // Returns where the allocation begins here. Throws DriverError, for example if the rank is gone.
  Address open(int rank, const Shown& shown);
  void close(int rank);

  std::size_t size() const { return opened_.size(); }

 private:
  struct Opened {
    std::uint64_t buffer_id;
    std::uint64_t length;
    Address here;
  };
  using All = std::map<std::pair<int, Address>, Opened>;

  All::iterator close(All::iterator one);

  const Driver& driver_;
  std::function<void()> quiesce_;
  std::map<Address, Shown> shown_;
  All opened_;  // by rank and base
};

}  // namespace paceline::device
