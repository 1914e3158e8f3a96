// The groups in which a coordinator's data move beside the one that it was given.
#pragma once

#include <cstdint>
#include <memory>

#include "execute/group.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

// Returns a group of the same ranks as `like`, whose collectives go as those of `like` would.
std::shared_ptr<Group> make_data_group(LoopHost& loop, std::uint64_t channel, const Group& like);

}  // namespace paceline
