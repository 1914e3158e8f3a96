// Checks of what callers give to collectives. Each throws Failure (invalid).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "execute/group.hpp"
#include "program/flow.hpp"
#include "types/call.hpp"

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

// An exchange: a call with a block to and from each rank.
void check_exchange(const Group& group, const CollectiveCall& call);

}  // namespace paceline
