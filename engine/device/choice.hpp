// How an all-reduce of device memory goes, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::device {

enum class Path : std::uint8_t {
  host,      // through pinned memory at once, and combined on the host
  one_shot,  // every rank copies its data to where all see them, and combines everybody's
  two_shot,  // every rank combines a part of everybody's buffers and writes it back to all of them
  staged,    // through pinned memory in chunks, combined on the host
};

const char* name_of(Path path);

struct Choice {
  Path path;
  std::string why;
};

// unreachable: why kernels cannot work in the memory of all ranks, which is the same text on all of them; empty if they
// can. bytes: of the buffer.
Choice choose(std::size_t bytes, const std::string& unreachable);

}  // namespace paceline::device
