// What a coordinator has done so far, beside its policy.
#pragma once

#include <cstdint>

namespace paceline {

struct Totals {
  std::uint64_t batches = 0;
  std::uint64_t fused_bytes = 0;        // of tensors that were packed with others
  std::uint64_t background_cpu_ns = 0;  // CPU time of the server, and of callers that synchronise; not for moving data
  std::uint64_t submitting_ns = 0;      // time that callers spent in `submit`
  std::uint64_t spin_ns = 0;            // time that this rank waited for others to synchronise
  std::uint64_t oversleep_ns = 0;       // time that it slept beyond what the policy had asked for
  std::uint64_t sleeps = 0;
  std::uint64_t negotiation_ns = 0;  // until issue, of requests that this rank was the last to submit
  std::uint64_t longest_negotiation_ns = 0;
  std::uint64_t negotiations = 0;
};

}  // namespace paceline
