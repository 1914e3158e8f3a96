// The collectives and messages between ranks, and what ranks that meet in one must agree on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "types/codecs.hpp"
#include "types/elements.hpp"

namespace paceline {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
  none,  // a call that raised before it began
  send,
  recv,
};

inline constexpr std::array<std::string_view, 12> kCollectiveNames = {
    "all_reduce", "broadcast",  "reduce",  "all_gather", "reduce_scatter", "gather",
    "scatter",    "all_to_all", "barrier", "none",       "send",           "recv"};

inline constexpr bool is_point_to_point(Collective collective) { return collective >= Collective::send; }

// Returns whether two ranks may mean the same elements. Floats that are marked so may be parts of complex numbers.
bool alike(DType one, std::uint64_t count, DType other, std::uint64_t others);

// The operation that this rank believes it is taking part in. Two ranks that meet in an operation must agree on it.
struct Fingerprint {
  std::uint64_t count = 0;  // elements; 0 where ranks may differ
  std::int32_t root = -1;
  Collective collective = Collective::barrier;
  DType dtype = DType::uint8;
  Op op = Op::sum;
  Codec codec = Codec::none;  // of what crosses from one machine to another

  bool operator==(const Fingerprint& other) const {
    return root == other.root && collective == other.collective && op == other.op && codec == other.codec &&
           ((dtype == other.dtype && count == other.count) || alike(dtype, count, other.dtype, other.count));
  }
};

// For example: all_reduce #12 float32[4096] SUM as int8
std::string describe(const Fingerprint& fingerprint, std::uint32_t sequence);

}  // namespace paceline
