// Which of the requests that are ready everywhere are carried out as one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

// Greedy with look-ahead, as Horovod v0.16.3 does it: from the first request on, those of the same kind that still fit
// join it; others are passed over while they, too, would have fitted. Every rank comes to the same batches.
//   `requests` are taken in this order; `batch` gets each batch in turn.
void fuse(std::span<const RequestPtr> requests, std::uint64_t fusion_bytes,
          const std::function<void(std::vector<RequestPtr>)>& batch);

}  // namespace paceline
