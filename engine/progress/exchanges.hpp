// The calls that combine nothing and have no plan; see `start` for what is thrown and returned.
#pragma once

#include "progress/collectives.hpp"

namespace paceline {

// A block to and from each rank: an all_gather, a gather, a scatter or an all_to_all.
Handle exchange(Engine&, Group&, const CollectiveCall&, Mode);
Handle barrier(Engine&, Group&, const CollectiveCall&, Mode);
Handle send(Engine&, Group&, const CollectiveCall&, Mode);

}  // namespace paceline
