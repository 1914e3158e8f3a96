// A plan as Python has decided it: levels of reductions over exact fractions of the buffer (see paceline.plan).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace paceline {

struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  // Returns the element at which this fraction of `count` elements ends. It is exact if the fraction divides the count.
  std::size_t of(std::size_t count) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(count) * static_cast<std::uint64_t>(numerator) /
                                    static_cast<std::uint64_t>(denominator));
  }
};

struct Reduce {
  Fraction begin;
  Fraction end;
  std::vector<int> holders;  // in the order of combination
  int owner = 0;

  bool holds(int rank) const { return std::ranges::find(holders, rank) != holders.end(); }
};

using Level = std::vector<Reduce>;

// Tells into how many chunks a buffer is cut, and how many of them are under way at once.
struct Chunks {
  std::size_t count = 1;
  std::size_t in_flight = 1;
};

struct Plan {
  std::int64_t limit_bytes = -1;  // the plan serves buffers up to this size; -1 for any
  std::string name;
  // In the last level every holder shows its data to all others, once, and takes what it needs; in a reduction each one
  // combines everything for itself. The data must be small enough to be sent unasked.
  bool one_shot = false;
  std::vector<Level> levels;
  // Larger buffers are cut into chunks of about so many bytes, each of which the plan serves as if it were the buffer;
  // 0 if buffers are never cut.
  std::size_t chunk_bytes = 0;
  std::size_t chunks_in_flight = 4;
  int leader = -1;             // of this rank's machine, see leader_of
  const char* algorithm = "";  // the name as events show it, which outlives the group

  Chunks chunks(std::size_t bytes) const {
    if (chunk_bytes == 0 || bytes <= chunk_bytes) return {};
    const std::size_t count = (bytes + chunk_bytes - 1) / chunk_bytes;
    return {count, std::min(count, chunks_in_flight)};
  }

  // Whether every range is combined from all ranks' copies at once, in one pass if the copies lie in shared memory.
  bool one_pass(int size) const {
    if (levels.size() != 1) return false;
    for (const Reduce& reduce : levels[0])
      if (reduce.holders.size() != static_cast<std::size_t>(size)) return false;
    return true;
  }
};

// The plans of a group, by collective, in the order of the sizes that they serve.
using Plans = std::map<std::string, std::vector<Plan>, std::less<>>;

}  // namespace paceline
