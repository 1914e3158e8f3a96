// The ranks that have left a coordinator, and what they had seen the end of: everything else would need them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/correspondence.hpp"
#include "failure/error.hpp"

namespace paceline {

class Departures {
 public:
  Departures(const Group& control, Correspondence& correspondence)
      : control_(control), correspondence_(correspondence) {}

  // This rank leaves, and says so: it has seen the end of so many batches and joins. `why` is no error, unless it
  // leaves because of one.
  void tell(std::uint64_t ended, const Error& why);
  void receive(int from, std::span<const std::byte> message);
  // Returns why a rank has left that is needed by everything that this rank, which has seen the end of so many, has not
  // seen the end of; null if there is none.
  const Error* needed_after(std::uint64_t ended) const;

 private:
  struct Departure {
    std::uint64_t ended = 0;  // the batches and joins that it had seen the end of; all ranks see the same ones
    Error why;                // of requests that need it
  };

  const Group& control_;
  Correspondence& correspondence_;
  std::vector<Departure> departures_;
};

}  // namespace paceline
