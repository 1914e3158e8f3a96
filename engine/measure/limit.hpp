// What an all-reduce would cost if it cost nothing but memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// times: nanoseconds of each timed pass. cpu: nanoseconds of CPU time of all threads in all of them together.
// wrong: elements of the result that were wrong before the timing.
struct LimitTimes {
  std::vector<std::int64_t> times;
  std::int64_t cpu = 0;
  std::size_t wrong = 0;
};

// All ranks are threads of one process that see each other's buffers of `bytes` (float32, summed). In each pass they
// meet; each reduces its block from all buffers into the first, where everybody may read the result; they meet again.
// No real ranks can do less. Nobody is pinned; who waits spins, and yields at once where the ranks outnumber the CPUs.
// Throws Failure for no iterations and for less than 1 or more than 128 ranks.
LimitTimes limit_all_reduce(int ranks, std::size_t bytes, int iterations);

}  // namespace paceline
