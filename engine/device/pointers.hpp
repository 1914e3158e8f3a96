// What is known of addresses: which memory they lie in, of what kind, on which device.
//
// A collective must know this of every buffer that it is given, and to ask the driver for all of it takes long (A. A.
// Awan, J. Bédorf, C.-H. Chu, H. Subramoni, D. K. Panda, "Scalable Distributed DNN Training using TensorFlow and
// CUDA-Aware MPI", CCGRID 2019, cache it as well, in MPI). Memory that Paceline has allocated is known until it says
// otherwise. Other memory may be freed, and its address used again, at any time: before an entry counts, the driver
// says whether the memory still has the number that it had, which it gives to no other memory of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "device/driver.hpp"

namespace paceline::device {

enum class Kind : std::uint8_t {
  pageable,  // host memory that the driver does not know
  host,      // pinned
  device,    // of cuMemAlloc
  managed,   // moves between host and device
  pool,      // of cuMemAllocAsync: it has no IPC handle
  mapped,    // of cuMemMap, as torch's expandable segments: it has no IPC handle, either
};

const char* name_of(Kind kind);

// A range of memory of one allocation.
struct Memory {
  Address base = 0;
  std::size_t length = 0;  // bytes
  Kind kind = Kind::pageable;
  Ordinal device = -1;
  std::uint64_t buffer_id = 0;

  bool on_device() const { return kind != Kind::pageable && kind != Kind::host; }
  bool holds(Address address, std::size_t bytes) const {
    return address >= base && address - base <= length && bytes <= length - (address - base);
  }
  bool operator==(const Memory&) const = default;
};

// Thread-safe.
class PointerCache {
 public:
  explicit PointerCache(const Driver& driver) : driver_(driver) {}

  // Returns the memory that `address` lies in; pageable memory has no length. Throws DriverError.
  Memory find(Address address);
  // Memory that Paceline has allocated, and will free.
  void add_own(const Memory& memory);
  void forget(Address base);

  std::size_t size() const;
  std::uint64_t queries() const;  // how often the driver was asked for all attributes

 private:
  struct Entry {
    Memory memory;
    bool own = false;
  };
  using Entries = std::map<Address, Entry>;

  Entries::iterator holder_of(Address address);
  void insert(const Entry& entry);
  bool still_there(const Entry& entry) const;
  Memory ask(Address address);

  const Driver& driver_;
  mutable std::mutex mutex_;
  Entries entries_;  // by base; no two overlap
  std::uint64_t queries_ = 0;
};

}  // namespace paceline::device
