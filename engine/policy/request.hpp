// What one rank wants done with one named tensor, once. Ranks hand requests in in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "link/header.hpp"

namespace paceline {

// Requests none of which is issued before all are ready everywhere, and which fail together: all `size` of them carry
// the same id, 0 is none. The id is part of what ranks agree on: a new one in every step is a new request to them.
struct Bundle {
  std::uint64_t id = 0;
  std::uint32_t size = 0;

  bool operator==(const Bundle&) const = default;
};

struct Request {
  std::string name;
  Fingerprint what;         // its count is 0 where ranks may differ (ragged collectives)
  std::string shape;        // as people write it, "64x3x7x7"; what ranks may differ in is a star, "*x3"
  std::uint64_t bytes = 0;  // this rank's
  double prescale = 1;
  double postscale = 1;
  std::int32_t priority = 0;  // higher goes first among those that are ready everywhere
  Bundle bundle;

  // Whether two ranks mean the same; their bytes and priorities may differ.
  bool agrees_with(const Request& other) const {
    return name == other.name && what == other.what && shape == other.shape && prescale == other.prescale &&
           postscale == other.postscale && bundle == other.bundle;
  }
};

// Whether two requests may be carried out as one: all-reduces of the same kind. Which is true of all ranks or of none.
inline bool can_fuse(const Request& one, const Request& other) {
  return one.what.collective == Collective::all_reduce && other.what.collective == Collective::all_reduce &&
         one.what.dtype == other.what.dtype && one.what.op == other.what.op && one.prescale == other.prescale &&
         one.postscale == other.postscale;
}

// Bytes of the request, the same on all ranks; 0 where they may differ.
inline std::uint64_t agreed_bytes(const Request& request) { return request.what.count * size_of(request.what.dtype); }

// Whether a rank that has joined can take part in it: with zeros, or no rows.
inline bool allows_joined(const Request& request) {
  return request.what.collective == Collective::all_reduce || request.what.collective == Collective::all_gather ||
         request.what.collective == Collective::barrier;
}

// For example: all_reduce float32 64x3x7x7 SUM
std::string describe(const Request& request);

// Shared, because the same request comes back in every step: nothing is copied in steady state.
using RequestPtr = std::shared_ptr<const Request>;

}  // namespace paceline
