// Checks of what callers give to collectives. Each throws Failure (invalid).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "execute/group.hpp"
#include "program/flow.hpp"

namespace paceline {

void check_reduction(DType dtype, Op op);
// role: what the rank is, as "the root".
void check_rank(const Group& group, int rank, const char* role);
void check_buffer(const void* data, std::size_t count);
// bytes: of each of the two, which may also be the same buffer.
void check_apart(const std::byte* one, const std::byte* other, std::size_t bytes);
// One of the two is written while the other is read: `part`, and the `whole` that has such a part for each rank. They
// are apart, or `part` is this rank's in the whole.
void check_part(const Group& group, const std::byte* part, const std::byte* whole, std::size_t bytes_of_part);
// Blocks of an exchange, which `check_exchange` has seen. What this rank has for itself may lie where it belongs.
void check_blocks_apart(const Group& group, Collective collective, const std::vector<Place>& sends,
                        const std::vector<Place>& recvs, int root);

inline bool has_root(Collective exchange) { return exchange == Collective::gather || exchange == Collective::scatter; }

// sends, recvs: blocks with a `count` of elements, which must be one for each rank.
template <typename Blocks>
void check_exchange(const Group& group, Collective collective, const Blocks& sends, const Blocks& recvs, DType dtype,
                    int root) {
  const bool rooted = has_root(collective);
  if (!rooted && collective != Collective::all_gather && collective != Collective::all_to_all)
    throw Failure(ErrorKind::invalid, "exchange serves all_gather, gather, scatter and all_to_all");
  if (rooted) check_rank(group, root, "the root");
  const auto size = static_cast<std::size_t>(group.size());
  if (sends.size() != size || recvs.size() != size)
    throw Failure(ErrorKind::invalid, "an exchange needs one buffer per rank, got " + std::to_string(sends.size()) +
                                          " to send and " + std::to_string(recvs.size()) +
                                          " to receive in a group of " + std::to_string(size));
  if (rooted && group.rank != root) return;
  const auto me = static_cast<std::size_t>(group.rank);
  if (sends[me].count != recvs[me].count)
    throw Failure(ErrorKind::invalid, "this rank sends itself " + std::to_string(sends[me].count * size_of(dtype)) +
                                          " bytes but expects " + std::to_string(recvs[me].count * size_of(dtype)));
}

}  // namespace paceline
