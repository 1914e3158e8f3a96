// Tells which ranks have data for which, in a collective that moves data and combines nothing.
#pragma once

#include <cstddef>

#include "types/collective.hpp"

namespace paceline {

struct Place {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
};

// Returns whether rank `from` has something for rank `to`.
inline bool flows(Collective collective, int root, int from, int to) {
  switch (collective) {
    case Collective::broadcast:
    case Collective::scatter: return from == root;
    case Collective::gather: return to == root;
    default: return true;
  }
}

}  // namespace paceline
