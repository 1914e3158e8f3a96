// The caches of a core, and what fits them.
#pragma once

#include <cstddef>

namespace paceline {

inline constexpr std::size_t kCacheLine = 64;

struct Caches {
  std::size_t first = 0;   // bytes of the first-level data cache
  std::size_t second = 0;  // bytes of the second-level cache, the last that a core has for itself

  // What is combined, written, and copied on while it is still in the first level: three inputs or outputs fit.
  std::size_t pass() const;
  // What ranks hand to each other at once in a large exchange: a quarter of the second level, so that a block is still
  // there when it is combined.
  std::size_t block() const;
  // After so many bytes handed over memory is used again: so it has left the cores' own caches. To write to what
  // another core still has in its own cache takes up to three times as long (32 KiB to 256 KiB between two ranks).
  std::size_t turnover() const;
};

// Of this machine; typical sizes where the kernel does not tell.
const Caches& caches();

}  // namespace paceline
