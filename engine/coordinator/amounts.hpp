// How much each rank brings to an all_gather or an all_to_all, which ranks tell each other before they trade it.
#pragma once

#include <vector>

#include "coordinator/batch_work.hpp"

namespace paceline {

class Amounts {
 public:
  // Whether ranks may bring different amounts to this request.
  static bool differ(const Request& request) {
    return request.what.collective == Collective::all_gather || request.what.collective == Collective::all_to_all;
  }

  // Starts to tell and to learn.
  Handle exchange(const BatchContext& context, const Carried& one);
  // By rank, the elements that come here. The exchange is over.
  std::vector<std::size_t> received() const;

 private:
  using Counts = std::vector<std::uint64_t>;

  std::size_t rank_ = 0;
  Counts mine_;  // the elements of this rank, or, in an all_to_all, of each of its parts
  Counts all_;   // those of all ranks
};

}  // namespace paceline
