// What the stream of a group and its host tell each other, in words of pinned memory: the stream writes how far it has
// come, so that the host need not ask the driver, and waits for what the host has to do in between.
//
// Ranks of one machine see each other's words. When a call fails on one of them, its owner gets the memory back that
// kernels of the others may work in. So the host that ends the call first marks it `withdrawn` where each other rank's
// stream reads it on its way to the kernels, and then looks at which of these streams are `working`. A stream that has
// said so before the mark may have missed it, and is waited for; one that has not sees the mark, whenever it comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "device/parameters.hpp"
#include "device/signals.hpp"

namespace paceline::device {

// That of one rank, in its arena.
class ControlMemory {
 public:
  using Word = std::atomic<std::uint32_t>;

  struct Shared {
    Word finished;          // the stream: the last call whose work is over
    Word here;              // the stream: chunks that have come to the host, of all calls
    Word served;            // the host: chunks that can go back
    Word working;           // the stream: the call whose kernels may be in memory of other ranks; 0: none are
    Word prepared[kCalls];  // the host: the call whose parameters are complete
  };

  // kernels: which a call starts at most, of each kind.
  ControlMemory(std::byte* memory, std::size_t kernels) : memory_(memory), kernels_(kernels) {}
  static std::size_t bytes(std::size_t kernels) { return sizeof(Shared) + kCalls * slot_bytes(kernels); }

  Shared* operator->() const { return reinterpret_cast<Shared*>(memory_); }
  Word& prepared(std::uint32_t call) const { return (*this)->prepared[call % kCalls]; }
  bool finished(std::uint32_t call) const { return reached((*this)->finished.load(), call); }
  // The number of a call that has failed on a rank of this machine; only the hosts of the other ranks write it.
  Word& withdrawn(std::uint32_t call) const { return reinterpret_cast<Head*>(slot(call).data())->withdrawn; }
  // What the host completes, for each kernel of the call.
  std::span<Parameters> parameters(std::uint32_t call) const {
    return {reinterpret_cast<Parameters*>(slot(call).data() + sizeof(Head)), kernels_};
  }
  // Both of these, which the stream copies to the device.
  std::span<std::byte> slot(std::uint32_t call) const {
    return {memory_ + sizeof(Shared) + call % kCalls * slot_bytes(kernels_), slot_bytes(kernels_)};
  }

 protected:
  static std::size_t slot_bytes(std::size_t kernels) { return sizeof(Head) + kernels * sizeof(Parameters); }

 private:
  std::byte* memory_;
  std::size_t kernels_;
};
static_assert(sizeof(ControlMemory::Shared) % alignof(Head) == 0 && sizeof(Head) % alignof(Parameters) == 0);

// The context of the device must be current wherever this is made or destroyed.
class Control final : public ControlMemory {
 public:
  Control(const Driver& driver, const std::shared_ptr<Arena>& arena, std::size_t kernels)
      : Control(std::make_unique<Pinned>(driver, arena, bytes(kernels)), kernels) {}

  Address address_of(const Word& word) const { return pinned_->address_of(&word); }
  // Where it lies in this rank's arena.
  std::uint64_t offset() const { return pinned_->offset(); }
  // Other ranks may still write there.
  void retire() { pinned_->retire(); }

 private:
  Control(std::unique_ptr<Pinned> pinned, std::size_t kernels)
      : ControlMemory(pinned->data(), kernels), pinned_(std::move(pinned)) {
    std::memset(pinned_->data(), 0, bytes(kernels));
    new (pinned_->data()) Shared{};
  }

  std::unique_ptr<Pinned> pinned_;
};

// The host writes a word that only grows.
inline void advance_to(Control::Word& word, std::uint32_t value) {
  if (!reached(word.load(), value)) word.store(value);
}

}  // namespace paceline::device
