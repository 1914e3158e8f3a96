#include "segment/handover.hpp"

#include <atomic>

#include "calibration/handover.hpp"
#include "kernel/reduce.hpp"
#include "kernel/streaming.hpp"

namespace paceline {
void Handover::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const bool large = kStreams && bytes >= calibration::kLeastStreamed;
  if (large && copies_++ % calibration::kCopiesPerProbe == 0) record(probe());
  if (large && streams_) {
    stream(to, from, bytes);
  } else {
    kernels().copy(to, from, bytes);
  }
}

// The fences wait for stores that the core still holds back, so that their time counts.
std::chrono::nanoseconds Handover::probe() {
  using Clock = std::chrono::steady_clock;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto begun = Clock::now();
  for (ProbedLine& line : lines_) line.probe.store(copies_, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return Clock::now() - begun;
}

void Handover::follow(const ProbedLines& theirs, std::uint32_t& seen) {
  if (theirs.front().probe.load(std::memory_order_relaxed) == seen) return;
  for (const ProbedLine& line : theirs) seen = line.probe.load(std::memory_order_relaxed);
}

void Handover::record(std::chrono::nanoseconds time) {
  const bool differs = (time >= calibration::kFarProbe) != streams_;
  against_ = differs ? against_ + 1 : 0;
  if (against_ < (streams_ ? calibration::kNearProbesInRow : calibration::kFarProbesInRow)) return;
  streams_ = !streams_;
  against_ = 0;
}

}  // namespace paceline
