// Hands the work of a call to the stream of its group, all of it at once. What other ranks have to do in between the
// stream waits for itself, in words of pinned memory that their streams write (Signals), and what the host has to do it
// waits for likewise (Control). No kernel waits for another process, which might not run before it ends.
//
// One-shot: a rank copies its data to its scratch memory and tells the others `given`; it waits for theirs, combines
// everybody's scratch memory into its own buffer and tells them `taken`. It has scratch memory for two calls, and
// overwrites it after everybody's `taken` of the last one-shot call but one.
//
// Direct: a rank shows its memory and tells `given`, and waits for the others' and for the addresses of theirs, which
// its host gets meanwhile (DeviceOperation). It takes what it needs from all buffers, and tells `taken`. It is through
// when all have told so. Data that others cannot map are copied to memory that they can.
//
// Two-shot: as direct, but a rank takes its part of all buffers, and writes the combination to all of them
// (reduce-scatter and all-gather at once).
//
// By machine: the ranks of a machine show each other their buffers, and each combines in its own what the plan between
// machines gives it. That goes through the host, which does the plan's other levels (Staging). A rank then tells
// `settled`, waits for the others of its machine, and takes from their buffers what it lacks.
//
// Blocks that go as one are copied one behind the other on the same stream before, and back after.
#pragma once

#include "device/device_operation.hpp"

namespace paceline::device {

// The context of the device must be current wherever this is used. Every function throws DriverError.
class Work {
 public:
  Work(Device& device, Neighbours& neighbours, Staging& staging);

  // operation: what the loop has of the call.
  void hand_over(const Call& call, const DeviceOperation& operation);
  // Copies what this rank brings along, scaled as the call says, unless it stays as it is where it is.
  void move(Address from, Address to, std::size_t count, const Call& call);

 private:
  void pack(const Call& call);
  void unpack(const Call& call);
  void one_shot(const Call& call, std::uint32_t number);
  void direct(const Call& call, const DeviceOperation& operation);
  void by_machine(const Call& call, const DeviceOperation& operation);
  Batch given(const DeviceOperation& operation) const;
  void enter(Batch& batch, std::uint32_t number);
  void leave(Batch& batch) const;
  void take_back(const Call& call, const DeviceOperation& operation);
  void launch(const Call& call, Parameters& parameters);
  void reduce(const Call& call, std::size_t count, ReduceParameters& parameters);
  void copy(std::size_t bytes, CopyParameters& parameters);
  StreamHandle stream() const { return neighbours_.stream().get(); }
  std::size_t size() const { return static_cast<std::size_t>(neighbours_.hosts().size()); }
  std::size_t rank() const { return static_cast<std::size_t>(neighbours_.hosts().rank); }

  Device& device_;
  const Driver& driver_;
  Neighbours& neighbours_;
  Staging& staging_;
  std::uint32_t one_shots_[2] = {};  // the last calls that have used each part of the scratch memory; 0 if none has
  unsigned turn_ = 0;
};

}  // namespace paceline::device
