// The caches of a core, and what fits them.
#pragma once

#include <cstddef>

namespace paceline {

inline constexpr std::size_t kCacheLine = 64;

struct Caches {
  std::size_t first = 0;   // bytes of the first-level data cache
  std::size_t second = 0;  // bytes of the second-level cache, the last that a core has for itself

  // The bytes of one input or output that are combined, and copied on, while they are still in the first level: three
  // of them fit there.
  std::size_t pass() const;
  // The bytes that ranks hand to each other at once in a large exchange: a quarter of the second level, so that a block
  // is still there when it is combined.
  std::size_t block() const;
  // The bytes that are handed over before memory is used again, so that it has left the cores' own caches. To write to
  // a line that another core still has in its own cache takes up to three times as long (measured with 32 KiB to 256
  // KiB between two ranks).
  std::size_t turnover() const;
};

// The caches of this machine; of typical sizes if the kernel does not tell.
const Caches& caches();

}  // namespace paceline
