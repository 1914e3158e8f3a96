#include "progress/arguments.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kernel/reduce.hpp"
#include "memory/overlap.hpp"

namespace paceline {

void check_reduction(DType dtype, Op op) {
  const Numbers parts = parts_of(dtype, 1);
  const bool linear = op == Op::sum || op == Op::avg || op == Op::premul_sum;
  if (supports(parts.dtype, op) && (parts.count == 1 || linear)) return;
  throw Failure(ErrorKind::invalid, std::string(kOpNames[static_cast<std::size_t>(op)]) + " is not defined for " +
                                        std::string(name_of(dtype)));
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

void check_part(const Group& group, const std::byte* part, const std::byte* whole, std::size_t bytes_of_part) {
  const std::size_t bytes = bytes_of_part * static_cast<std::size_t>(group.size());
  const std::byte* const own = whole + bytes_of_part * static_cast<std::size_t>(group.rank);
  if (part == own || part + bytes_of_part <= whole || whole + bytes <= part) return;
  throw Failure(ErrorKind::invalid, "input and output overlap; they must be apart, or one must be " +
                                        group.name_of(group.rank) + "'s own part of the other");
}

void check_blocks_apart(const Group& group, Collective collective, const std::vector<Place>& sends,
                        const std::vector<Place>& recvs, int root) {
  const Place& own = sends[static_cast<std::size_t>(group.rank)];
  const bool in_place = own.address == recvs[static_cast<std::size_t>(group.rank)].address;
  using Span = std::pair<const std::byte*, const std::byte*>;
  const auto span = [](const Place& place) { return Span(place.address, place.address + place.bytes); };
  std::vector<Span> read;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Place& send = sends[static_cast<std::size_t>(rank)];
    if (send.bytes == 0 || !flows(collective, root, group.rank, rank)) continue;
    if (!in_place || span(send) != span(own)) read.push_back(span(send));
  }
  std::ranges::sort(read);
  for (std::size_t i = 1; i < read.size(); ++i) read[i].second = std::max(read[i].second, read[i - 1].second);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto [begin, end] = span(recvs[static_cast<std::size_t>(rank)]);
    if (begin == end || !flows(collective, root, rank, group.rank)) continue;
    const auto behind = std::ranges::lower_bound(read, Span(end, nullptr));
    if (behind == read.begin() || std::prev(behind)->second <= begin) continue;
    throw Failure(ErrorKind::invalid, "input and output overlap, and what comes would overwrite what is sent");
  }
}

void check_exchange(const Group& group, const CollectiveCall& call) {
  if (!call.has_root() && call.collective != Collective::all_gather && call.collective != Collective::all_to_all)
    throw Failure(ErrorKind::invalid, "exchange serves all_gather, gather, scatter and all_to_all");
  if (call.has_root()) check_rank(group, call.root, "the root");
  const auto size = static_cast<std::size_t>(group.size());
  if (call.sends.size() != size || call.receives.size() != size)
    throw Failure(ErrorKind::invalid,
                  "an exchange needs one buffer per rank, got " + std::to_string(call.sends.size()) + " to send and " +
                      std::to_string(call.receives.size()) + " to receive in a group of " + std::to_string(size));
  if (call.has_root() && group.rank != call.root) return;
  const auto me = static_cast<std::size_t>(group.rank);
  const std::size_t width = size_of(call.dtype);
  if (call.sends[me].count != call.receives[me].count)
    throw Failure(ErrorKind::invalid, "this rank sends itself " + std::to_string(call.sends[me].count * width) +
                                          " bytes but expects " + std::to_string(call.receives[me].count * width));
}

}  // namespace paceline
