#include "memory/handover.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "memory/streaming.hpp"

namespace paceline {
namespace {

constexpr unsigned kCopiesPerProbe = 16;

// Copies the first bytes. Reading them comes before the clock: it is the writing that differs. The fences wait for
// stores that the core still holds back.
std::chrono::nanoseconds probe(std::byte* to, const std::byte* from) {
  using Clock = std::chrono::steady_clock;
  std::byte held[Handover::kProbed];
  std::memcpy(held, from, sizeof held);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto begun = Clock::now();
  std::memcpy(to, held, sizeof held);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return Clock::now() - begun;
}

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  const std::size_t before = std::min(bytes, past == 0 ? 0 : kCacheLine - past);
  const std::size_t lines = (bytes - before) / kCacheLine;
  const std::size_t done = before + lines * kCacheLine;
  std::memcpy(to, from, before);
  std::memcpy(to + done, from + done, bytes - done);
  stream_lines(to + before, from + before, lines);
}

}  // namespace

void Handover::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
  const bool large = kStreams && bytes >= kLeast;
  if (large && copies_++ % kCopiesPerProbe == 0) {
    took(probe(to, from));
    done = kProbed;
  }
  if (large && streams_) {
    stream(to + done, from + done, bytes - done);
  } else {
    std::memcpy(to + done, from + done, bytes - done);
  }
}

void Handover::took(std::chrono::nanoseconds time) {
  const bool differs = (time >= kFar) != streams_;
  against_ = differs ? against_ + 1 : 0;
  if (against_ < (streams_ ? kNearInRow : kFarInRow)) return;
  streams_ = !streams_;
  against_ = 0;
}

}  // namespace paceline
