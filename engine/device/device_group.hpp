// Collectives of a group on device memory.
//
// Ranks that share a device map each other's memory, and their kernels read and write it. No kernel waits for another
// process, which might not run before it ends: the streams wait for events that the ranks share, see streams.hpp.
//
// One-shot: a rank copies its data to its scratch memory and records `ready`; the ranks exchange notices; each waits
// for everybody's `ready`, combines everybody's scratch memory into its own buffer and records `done`. It has two of
// each, so that nothing else is needed: it overwrites scratch memory after everybody's `done` of the last but one
// operation, and everybody had recorded that before the notices of the last one.
//
// Two-shot: a rank records `given` and exchanges notices, which say where its buffer lies. It waits for everybody's
// `given`, combines its part of all buffers, writes the result to all of them (reduce-scatter and all-gather at once),
// and records `written`. The ranks exchange notices again, and the caller's stream waits for everybody's `written`.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/choice.hpp"
#include "device/neighbours.hpp"
#include "device/pending.hpp"
#include "device/staging.hpp"

namespace paceline::device {

// The ranks of the group make theirs, and call it, in the same order as all collectives.
class DeviceGroup {
 public:
  // Collective. Throws Failure as collectives do; what a device lacks only makes operations go through the host.
  DeviceGroup(std::shared_ptr<Engine> engine, std::shared_ptr<Group> group, std::shared_ptr<Device> device,
              PointerCache& pointers);
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // Hands an all-reduce in place to the device, once all ranks have called it. `call.data` is memory of this group's
  // device. Throws Failure, on all ranks with the same words: mismatch if they disagree, aborted if a device failed.
  std::shared_ptr<Pending> all_reduce(const Call& call);

  // How the last operation went, and why; and how one of so many bytes would.
  const Choice& last() const { return last_; }
  Choice choice(std::size_t bytes) const { return choose(bytes, neighbours_->unreachable()); }
  std::size_t opened() const { return neighbours_->opened(); }

 private:
  Neighbours::Own& own() { return neighbours_->own(); }
  const std::vector<std::unique_ptr<Neighbours::Peer>>& peers() const { return neighbours_->peers(); }
  std::size_t rank() const { return static_cast<std::size_t>(group_->rank); }
  std::size_t size() const { return static_cast<std::size_t>(group_->size()); }

  Notice notice_of(const Call& call);
  std::vector<Notice> exchange(const Notice& mine);
  void carry_out(const Call& call, Choice chosen, const Notice& mine);
  void settle(Pending* pending, StreamHandle stream) noexcept;
  void give_one_shot(const Call& call);
  void one_shot(const Call& call);
  void two_shot(const Call& call, const std::vector<Notice>& all);
  Address open_buffer(std::size_t from, const Notice& said, std::size_t bytes);
  void reduce(const Call& call, ReduceParameters& parameters);
  void scale(const Call& call, Address to);
  template <typename Work>
  void attempt(const char* what, Work&& work);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Device> device_;
  PointerCache& pointers_;
  const Driver& driver_;
  std::unique_ptr<Neighbours> neighbours_;
  std::unique_ptr<Staging> staging_;
  std::mutex mutex_;
  std::uint64_t one_shots_ = 0;
  Choice last_{Path::host, "nothing was asked for yet"};
};

}  // namespace paceline::device
