// Runs the kernels of this folder on the host, for tests: the same source, compiled by the host's compiler.
#pragma once

#include <string_view>

#include "device/kernels/launch.hpp"

namespace paceline::device {

// Runs a kernel to its end in the calling thread, one thread of it after the other; `parameters` are those of
// cuLaunchKernel. Returns whether there is a kernel of that name.
bool run_on_host(std::string_view name, Dimensions grid, Dimensions block, unsigned shared_bytes, void** parameters);

}  // namespace paceline::device
