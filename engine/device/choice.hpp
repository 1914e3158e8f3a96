// How a collective of device memory goes, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/call.hpp"
#include "device/limits.hpp"

namespace paceline::device {

enum class Path : std::uint8_t {
  host,        // through pinned memory at once, and combined or moved on the host
  one_shot,    // every rank copies its data to where all see them, and takes from everybody's what it needs
  two_shot,    // every rank combines a part of everybody's buffers and writes it back to all of them
  direct,      // every rank takes what it needs from everybody's buffers
  staged,      // through pinned memory in chunks, combined or moved on the host
  by_machine,  // every rank combines parts of the buffers of its machine, which go on as staged, and takes the others
};

const char* name_of(Path path);

struct Choice {
  Path path;
  std::string why;
};

// ranks: of the group. unreachable: why kernels cannot work in the memory of all ranks, which is the same text on all
// of them; empty if they can. by_machine: whether the ranks of each machine can come first. All ranks come to the same.
Choice choose(const Call& call, std::size_t ranks, const Limits& limits, const std::string& unreachable,
              bool by_machine = false);

}  // namespace paceline::device
