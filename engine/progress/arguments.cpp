#include "progress/arguments.hpp"

#include <string>

#include "kernel/reduce.hpp"
#include "memory/overlap.hpp"

namespace paceline {

void check_reduction(DType dtype, Op op) {
  if (supports(dtype, op)) return;
  throw Failure(ErrorKind::invalid, std::string(kOpNames[static_cast<std::size_t>(op)]) + " is not defined for " +
                                        std::string(kDTypeNames[static_cast<std::size_t>(dtype)]));
}

void check_rank(const Group& group, int rank, const char* role) {
  if (rank >= 0 && rank < group.size()) return;
  throw Failure(ErrorKind::invalid, std::string(role) + " must be a rank from 0 to " +
                                        std::to_string(group.size() - 1) + ", got " + std::to_string(rank));
}

void check_buffer(const void* data, std::size_t count) {
  if (data == nullptr && count > 0) throw Failure(ErrorKind::invalid, "the buffer is null but holds elements");
}

void check_apart(const std::byte* one, const std::byte* other, std::size_t bytes) {
  if (same_or_apart(one, other, bytes)) return;
  throw Failure(ErrorKind::invalid, "input and output overlap in part; they must be the same buffer, or apart");
}

}  // namespace paceline
