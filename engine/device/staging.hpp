// An all-reduce of device memory on the host: chunks go to pinned memory that the ranks of this machine share, are
// combined there by whatever plan the group has, and go back. While one chunk is combined, another one travels.
#pragma once

#include <array>
#include <memory>

#include "device/device.hpp"
#include "device/streams.hpp"
#include "memory/arena.hpp"
#include "progress/collectives.hpp"

namespace paceline::device {

struct Call {
  Address data = 0;
  std::size_t count = 0;
  DType dtype = DType::uint8;
  Op op = Op::sum;
  double factor = 1;
  StreamHandle stream = nullptr;  // the caller's, after whose work the collective comes, and before whose later work

  std::size_t bytes() const { return count * size_of(dtype); }
};

// Pinned memory in the arena.
class Pinned {
 public:
  Pinned(const Driver& driver, const std::shared_ptr<Arena>& arena, std::size_t bytes);
  ~Pinned() { driver_.host_unregister(memory_.data()); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  const Driver& driver_;
  ArenaMemory memory_;
};

// The context of the device must be current wherever this is used or destroyed.
class Staging {
 public:
  Staging(Engine& engine, Group& group, const Driver& driver) : engine_(engine), group_(group), driver_(driver) {}

  // The work on the device goes to `stream`. Throws DriverError, and Failure as the collectives of the host do.
  void all_reduce(const Call& call, StreamHandle stream);

 private:
  struct Slot {
    explicit Slot(const Driver& driver) : there(driver) {}
    Event there;  // its chunk has come from the device
    std::size_t first = 0;
    std::size_t count = 0;
  };

  void make_room(std::size_t bytes);
  void fetch(const Call& call, StreamHandle stream, Slot& slot, std::byte* to, std::size_t chunk);
  void await(const Event& event) const;

  Engine& engine_;
  Group& group_;
  const Driver& driver_;
  std::unique_ptr<Pinned> pinned_;  // both slots
  std::vector<Slot> slots_;
};

}  // namespace paceline::device
