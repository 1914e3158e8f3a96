// A request: what one rank wants done with one named tensor, once. Ranks submit requests in any order.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "types/collective.hpp"

namespace paceline {

// Requests of one bundle are issued once all of them are ready everywhere, and fail together. All `size` of them carry
// the same id; 0 stands for no bundle. Ranks must agree on the id: with a new id in every step they see a new request.
struct Bundle {
  std::uint64_t id = 0;
  std::uint32_t size = 0;

  bool operator==(const Bundle&) const = default;
};

// Returns whether two factors are the same; one that is no number is so on all ranks that give it.
inline bool same_factor(double one, double other) { return one == other || (std::isnan(one) && std::isnan(other)); }

struct Request {
  std::string name;
  Fingerprint what;         // its count is 0 if ranks may differ (ragged collectives)
  std::string shape;        // for example "64x3x7x7"; a star stands for a dimension in which ranks may differ, "*x3"
  std::uint64_t bytes = 0;  // of this rank's tensor
  double prescale = 1;
  double postscale = 1;
  std::int32_t priority = 0;  // of requests that are ready everywhere, the one with the highest priority goes first
  Bundle bundle;
  bool on_device = false;  // its memory is a device's

  // Returns whether two ranks mean the same; their bytes and priorities may differ.
  bool agrees_with(const Request& other) const {
    return name == other.name && what == other.what && shape == other.shape && same_factor(prescale, other.prescale) &&
           same_factor(postscale, other.postscale) && bundle == other.bundle && on_device == other.on_device;
  }
};

// Returns whether two requests may be carried out as one: they are all-reduces of the same kind. All ranks get the same
// answer.
inline bool can_fuse(const Request& one, const Request& other) {
  return one.what.collective == Collective::all_reduce && other.what.collective == Collective::all_reduce &&
         one.what.dtype == other.what.dtype && one.what.op == other.what.op && one.what.codec == other.what.codec &&
         same_factor(one.prescale, other.prescale) && same_factor(one.postscale, other.postscale) &&
         one.on_device == other.on_device;
}

// Returns the bytes of the request if they are the same on all ranks, and 0 if they may differ.
inline std::uint64_t agreed_bytes(const Request& request) { return request.what.count * size_of(request.what.dtype); }

// Returns whether a rank that has joined can take part in it, with zeros or no rows.
inline bool allows_joined(const Request& request) {
  return request.what.collective == Collective::all_reduce || request.what.collective == Collective::all_gather ||
         request.what.collective == Collective::barrier;
}

// For example: all_reduce float32 64x3x7x7 SUM as int8
std::string describe(const Request& request);

// Requests are shared, because the same request comes back in every step: nothing is copied in steady state.
using RequestPtr = std::shared_ptr<const Request>;

}  // namespace paceline
