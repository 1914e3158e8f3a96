// Memory of the host that streams and kernels of a device reach. The context of the device must be current wherever
// these are made or destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/driver.hpp"
#include "memory/arena.hpp"
#include "memory/rounding.hpp"

namespace paceline::device {

inline constexpr std::size_t kPage = 4096;  // bytes; the driver pins whole pages, and each of them once

// Memory that somebody else keeps, in whole pages.
class Registered {
 public:
  Registered(const Driver& driver, std::byte* memory, std::size_t bytes) : driver_(driver), memory_(memory) {
    driver_.check(driver_.host_register(memory_, bytes, kHostPortable | kHostDeviceMap), "cuMemHostRegister");
    const Result result = driver_.host_address(&address_, memory_, 0);
    if (result == Result::success) return;
    driver_.host_unregister(memory_);
    driver_.check(result, "cuMemHostGetDevicePointer");
  }
  ~Registered() { driver_.host_unregister(memory_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  std::byte* data() const { return memory_; }
  // Where the device finds what lies at `inside`.
  Address address_of(const void* inside) const {
    return address_ + static_cast<Address>(static_cast<const std::byte*>(inside) - memory_);
  }

 private:
  const Driver& driver_;
  std::byte* memory_;
  Address address_ = 0;
};

// Memory in the arena of this process.
class Pinned {
 public:
  Pinned(const Driver& driver, const std::shared_ptr<Arena>& arena, std::size_t bytes)
      : arena_(arena),
        memory_(arena, rounded_up(bytes, kPage) + kPage),
        pages_(driver, first_page(), rounded_up(bytes, kPage)) {}

  std::byte* data() const { return pages_.data(); }
  Address address_of(const void* inside) const { return pages_.address_of(inside); }
  // Where it lies in the arena.
  std::uint64_t offset() const { return arena_->offset_of(data()); }
  // Its place in the arena stays taken when this goes: a peer may still write there.
  void retire() { arena_->retire(data()); }

 private:
  std::byte* first_page() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (rounded_up(begin, kPage) - begin);
  }

  std::shared_ptr<Arena> arena_;
  ArenaMemory memory_;
  Registered pages_;
};

}  // namespace paceline::device
