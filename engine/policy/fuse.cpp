#include "policy/fuse.hpp"

namespace paceline {

void fuse(std::span<const RequestPtr> requests, std::uint64_t fusion_bytes,
          const std::function<void(std::vector<RequestPtr>)>& batch) {
  std::vector<bool> taken(requests.size());
  for (std::size_t first = 0; first < requests.size(); ++first) {
    if (taken[first]) continue;
    const Request& leader = *requests[first];
    std::vector<RequestPtr> together;
    together.reserve(requests.size() - first);
    together.push_back(requests[first]);
    std::uint64_t bytes = agreed_bytes(leader);
    std::uint64_t passed_over = 0;
    for (std::size_t i = first + 1; leader.what.collective == Collective::all_reduce && i < requests.size(); ++i) {
      if (taken[i]) continue;
      const std::uint64_t more = agreed_bytes(*requests[i]);
      if (can_fuse(leader, *requests[i]) && bytes + more <= fusion_bytes) {
        bytes += more;
        taken[i] = true;
        together.push_back(requests[i]);
      } else if (passed_over += more; bytes + passed_over > fusion_bytes) {
        break;
      }
    }
    batch(std::move(together));
  }
}

}  // namespace paceline
