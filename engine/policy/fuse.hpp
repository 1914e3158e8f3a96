// Decides which of the requests that are ready everywhere are carried out as one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

// It is greedy with look-ahead, as Horovod v0.16.3 is: starting from the first request, requests of the same kind that
// still fit join it, and others are passed over as long as they, too, would have fitted. All ranks make the same
// batches. It takes `requests` in this order, and gives each batch in turn to `batch`.
void fuse(std::span<const RequestPtr> requests, std::uint64_t fusion_bytes,
          const std::function<void(std::vector<RequestPtr>)>& batch);

}  // namespace paceline
