// A collective, or a message, as one rank calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "types/collective.hpp"

namespace paceline {

// Elements that lie one behind the other.
struct Elements {
  std::byte* data = nullptr;
  std::size_t count = 0;
};

// Memory is the host's or that of one device. What a collective does not use stays as it is.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  const std::byte* source = nullptr;  // what this rank brings; null: what is in `target`
  std::byte* target = nullptr;        // where what comes belongs
  std::size_t count = 0;              // elements of a block, or of the message
  DType dtype = DType::uint8;
  Op op = Op::sum;
  double factor = 1;  // by which every rank's elements are multiplied, in a premul_sum
  int root = -1;
  std::optional<Codec> codec = {};  // of what crosses from one machine to another; nothing: as the group has it
  std::byte* residual = nullptr;    // as many float32 as this rank brings, for error feedback; null: none
  // In place of the above where blocks have counts of their own: one to and one from each rank.
  std::vector<Elements> sends = {};
  std::vector<Elements> receives = {};
  int peer = -1;  // of a message; -1: it is received from any rank
  std::int32_t tag = 0;

  const std::byte* given() const { return source == nullptr ? target : source; }
  bool combines() const {
    return collective == Collective::all_reduce || collective == Collective::reduce ||
           collective == Collective::reduce_scatter;
  }
  bool has_root() const {
    return collective == Collective::broadcast || collective == Collective::reduce ||
           collective == Collective::gather || collective == Collective::scatter;
  }
  // What all ranks must agree on, but for the codec: where the call names none, it is the group's.
  Fingerprint fingerprint() const {
    return {count, has_root() ? root : -1, collective, dtype, combines() ? op : Op::sum};
  }
};

// Returns an all_gather of so many bytes of each rank.
inline CollectiveCall gather_bytes(const void* mine, void* all, std::size_t bytes) {
  return {.collective = Collective::all_gather,
          .source = static_cast<const std::byte*>(mine),
          .target = static_cast<std::byte*>(all),
          .count = bytes};
}

// Returns blocks of these counts of elements, one behind the other.
inline std::vector<Elements> in_a_row(std::byte* data, const std::vector<std::size_t>& counts, DType dtype) {
  std::vector<Elements> all;
  all.reserve(counts.size());
  for (const std::size_t count : counts) {
    all.push_back({data, count});
    data += count * size_of(dtype);
  }
  return all;
}

}  // namespace paceline
