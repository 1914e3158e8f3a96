// Checks of what callers give to collectives. Each throws Failure (invalid).
#pragma once

#include <cstddef>

#include "execute/group.hpp"

namespace paceline {

void check_reduction(DType dtype, Op op);
// role: what the rank is, as "the root".
void check_rank(const Group& group, int rank, const char* role);
void check_buffer(const void* data, std::size_t count);
// bytes: of each of the two, which may also be the same buffer.
void check_apart(const std::byte* one, const std::byte* other, std::size_t bytes);

}  // namespace paceline
