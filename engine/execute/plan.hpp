// A plan as Python decided it: levels of reductions over exact fractions of the buffer (see paceline.plan).
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

  // The element at which this fraction of `count` elements ends; whole where the fraction divides the count.
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

struct Plan {
  std::int64_t limit_bytes = -1;  // serves buffers up to this size; -1: any
  std::string name;
  // In the last level every holder shows all others what it has, once, and takes what it needs; in a reduction each
  // combines it all for itself. What it shows has to be small enough to leave without being asked for.
  bool one_shot = false;
  std::vector<Level> levels;
  // Larger buffers are cut into chunks of at most about this size, and the plan serves each as if it were the buffer;
  // 0: never. All-gather is not cut, the reduce-scatter by the same plan is.
  std::size_t chunk_bytes = 0;
  const char* algorithm = "";  // the name as events show it, which stays when the group goes

  std::size_t chunks(std::size_t bytes) const {
    return chunk_bytes == 0 || bytes <= chunk_bytes ? 1 : (bytes + chunk_bytes - 1) / chunk_bytes;
  }

  // Whether every range is combined from everybody's copy at once: one pass, if the copies lie in shared memory.
  bool one_pass(int size) const {
    if (levels.size() != 1) return false;
    for (const Reduce& reduce : levels[0])
      if (reduce.holders.size() != static_cast<std::size_t>(size)) return false;
    return true;
  }
};

// Of a group, by collective; for each in the order of the sizes that they serve.
using Plans = std::map<std::string, std::vector<Plan>, std::less<>>;

}  // namespace paceline
