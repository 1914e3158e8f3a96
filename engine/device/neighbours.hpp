// What the ranks of a group have for each other on their devices: pinned memory, and, where they share a device or
// theirs reach each other, memory of each that all of them map.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/control.hpp"
#include "device/device.hpp"
#include "device/notice.hpp"
#include "device/signals.hpp"
#include "device/streams.hpp"

namespace paceline::device {

// The context of the device must be current wherever this is used or destroyed.
class Neighbours {
 public:
  // Prepares what other ranks need, tells them, and opens what they have. Collective. Throws Failure as collectives do,
  // and if a rank cannot have pinned memory; what else a device lacks only makes the ranks unreachable.
  Neighbours(Engine& engine, Group& group, Device& device, PointerCache& pointers);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Why kernels cannot work in the memory of all ranks, on all ranks alike; empty if they can.
  const std::string& unreachable() const { return unreachable_; }
  // Whether they can on each of several machines, of which one has several ranks. All ranks see the same.
  bool machines_reach() const { return machines_reach_; }
  // The ranks of this machine, in order.
  const std::vector<int>& near() const { return near_; }
  // Whether two ranks or more have the same device.
  bool share_device() const { return share_device_; }
  // The group in which the host does its part of the work.
  Group& hosts() const { return *hosts_; }
  // All work of the group goes to one stream.
  Stream& stream() const { return *stream_; }
  Control& control() const { return *control_; }

  // What follows is there if the ranks reach each other, and of the ranks near this one if those of each machine do.
  Signals& signals() const { return *signals_; }
  // Memory of this rank or another one for what a one-shot call brings along.
  Address scratch(std::size_t rank) const { return scratch_[rank]; }
  // Memory of this rank that the others map, of as many bytes as the largest trial.
  Address trial() const;
  // Where parameters lie that the host completes after the kernels of a call were handed over, with their head.
  Address parameters() const;
  PeerMemory& memory() { return memory_; }

  // What follows is for a caller with the engine's lock, and also where the ranks do not reach each other.
  // A call has failed here: kernels of other ranks that have yet to start for it leave this rank's memory alone.
  void withdraw(std::uint32_t call) const;
  // Whether a kernel that another rank has started for it may still be in this rank's memory.
  bool others_work(std::uint32_t call) const;
  // Whether it has failed on another rank. The reason follows over the links.
  bool withdrawn(std::uint32_t call) const { return control_->withdrawn(call).load() == call; }

  // Waits a moment until this rank's stream has come to the end of `last`, and no rank uses this one's memory any more.
  // Returns whether it is so; else what this rank has shown to others must stay.
  bool leave(std::uint32_t last);

 private:
  void prepare(Introduction& mine);
  std::string obstacle(const std::vector<Introduction>& all, std::size_t together) const;
  std::string open(const std::vector<Introduction>& all);
  void open_words(const std::vector<Introduction>& all);
  std::size_t kernels() const { return group_.on_one_machine() ? 1 : kMostRanges; }
  std::string opened_everywhere(const std::vector<Introduction>& all);
  void make_hosts(std::uint64_t channel);
  bool all_have_left();

  Engine& engine_;
  Group& group_;
  Device& device_;
  PointerCache& pointers_;
  const std::vector<int> near_;
  ShownMemory own_;
  PeerMemory memory_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Signals> signals_;
  // Of ranks near this one, once they reach each other.
  struct Other {
    std::size_t rank;
    ControlMemory control;
  };
  std::vector<Other> others_;
  std::shared_ptr<Group> hosts_;
  std::vector<Address> scratch_;  // by rank
  bool shown_kept_ = false;       // a peer may still use what this rank has shown: it is given back with the process
  std::string unreachable_;
  bool machines_reach_ = false;
  bool share_device_ = false;
};

}  // namespace paceline::device
