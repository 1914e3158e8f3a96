// The ranks that share a device: what this one has for the others, and what it has opened of theirs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/notice.hpp"
#include "device/streams.hpp"

namespace paceline::device {

// The context of the device must be current wherever this is used. Not thread-safe.
class Neighbours {
 public:
  // What this rank has for the others.
  struct Own {
    Own(const Driver& driver, PointerCache& pointers);
    ~Own();

    const Driver& driver;
    PointerCache& pointers;
    Stream stream;
    SharedEvent ready[2];
    SharedEvent done[2];
    SharedEvent given;
    SharedEvent written;
    Address scratch = 0;
    bool scratch_kept = false;  // a peer may still use it: it is given back with the process
    PeerMemory memory;
  };
  // What another rank has for this one.
  struct Peer {
    Peer(const Driver& driver, const Introduction& said, Address scratch_here);

    Event ready[2];
    Event done[2];
    Event given;
    Event written;
    Address scratch;
  };

  // Prepares what other ranks need, tells them, and opens what they have. Collective. Throws Failure as collectives do;
  // what a device lacks only makes the others unreachable.
  Neighbours(Engine& engine, Group& group, Device& device, PointerCache& pointers);
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Why the memory of all ranks is not mapped, on all ranks alike; empty if it is.
  const std::string& unreachable() const { return unreachable_; }
  // Throws DriverError if what failed when the ranks met fails again.
  Own& own();
  // By rank, null for this one. Empty if they are unreachable.
  const std::vector<std::unique_ptr<Peer>>& peers() const { return peers_; }
  std::size_t opened() const { return own_ == nullptr ? 0 : own_->memory.size(); }

  // Waits a moment until no rank uses this one's scratch memory any more, and for this rank's stream if that is so.
  void leave();

 private:
  void introduce(Introduction& mine);
  std::string obstacle(const std::vector<Introduction>& all) const;
  std::string open(const std::vector<Introduction>& all);
  bool all_have_left();

  Engine& engine_;
  Group& group_;
  Device& device_;
  PointerCache& pointers_;
  std::unique_ptr<Own> own_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::string unreachable_;
};

}  // namespace paceline::device
