// What the stream of a group and its host tell each other, in words of pinned memory: the stream writes how far it has
// come, so that the host need not ask the driver, and waits for what the host has to do in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <span>

#include "device/parameters.hpp"
#include "device/signals.hpp"

namespace paceline::device {

// The context of the device must be current wherever this is made or destroyed.
class Control {
 public:
  using Word = std::atomic<std::uint32_t>;

  struct Shared {
    Word finished;          // the stream: the last call whose work is over
    Word here;              // the stream: chunks that have come to the host, of all calls
    Word served;            // the host: chunks that can go back
    Word prepared[kCalls];  // the host: the call whose parameters are complete
  };

  // kernels: which a call starts at most, of each kind.
  Control(const Driver& driver, const std::shared_ptr<Arena>& arena, std::size_t kernels)
      : pinned_(driver, arena, sizeof(Shared)),
        words_(new (pinned_.data()) Shared{}),
        kernels_(kernels),
        parameters_(driver, arena, kCalls * kernels * sizeof(Parameters)) {}

  Shared* operator->() const { return words_; }

  Word& prepared(std::uint32_t call) const { return words_->prepared[call % kCalls]; }
  // What the host completes, for each kernel of the call.
  std::span<Parameters> parameters(std::uint32_t call) const {
    return {reinterpret_cast<Parameters*>(parameters_.data()) + call % kCalls * kernels_, kernels_};
  }
  bool finished(std::uint32_t call) const { return reached(words_->finished.load(), call); }
  Address address_of(const Word& word) const { return pinned_.address_of(&word); }

 private:
  Pinned pinned_;
  Shared* words_;
  const std::size_t kernels_;
  Pinned parameters_;
};

// The host writes a word that only grows.
inline void advance_to(Control::Word& word, std::uint32_t value) {
  if (!reached(word.load(), value)) word.store(value);
}

}  // namespace paceline::device
