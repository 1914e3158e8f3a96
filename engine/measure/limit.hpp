// Measures what a collective would cost if it cost nothing but memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// `times` are the nanoseconds of each timed pass, `cpu` those of CPU time that all threads took in all passes together.
// `wrong` elements of the result were wrong before the timing.
struct LimitTimes {
  std::vector<std::int64_t> times;
  std::int64_t cpu = 0;
  std::size_t wrong = 0;
};

// All ranks are threads of one process that see each other's buffers of `bytes` (float32). In each pass they meet, each
// does its part of the collective, and they meet again. No thread is pinned. A thread that
// waits spins, but yields at once if the ranks outnumber the CPUs. Both throw Failure for no iterations and for less
// than 1 or more than 128 ranks.

// Each reduces its block from all buffers into the first, where all may read the result. Real ranks cannot do less.
LimitTimes limit_all_reduce(int ranks, std::size_t bytes, int iterations);
// Each copies its buffer into another one, of the next rank, with memcpy.
LimitTimes limit_sendrecv(int ranks, std::size_t bytes, int iterations);

}  // namespace paceline
