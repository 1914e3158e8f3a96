#include "device/kernels/on_host/run.hpp"

#include <algorithm>
#include <array>

#include "device/kernels/code/all.cu"

namespace paceline::device {

namespace {

struct Kernel {
  std::string_view name;
  void (*run)(void** parameters);
};

template <auto kKernel, typename Parameters>
void call(void** parameters) {
  kKernel(*static_cast<const Parameters*>(parameters[0]));
}

#define PACELINE_REDUCTION(dtype, element, op, operator) \
  Kernel{"paceline_reduce_" #dtype "_" #op, call<paceline_reduce_##dtype##_##op, ReduceParameters>},
#define PACELINE_SCALE(dtype, element) Kernel{"paceline_scale_" #dtype, call<paceline_scale_##dtype, ScaleParameters>},
constexpr std::array kKernels = {
    PACELINE_REDUCTIONS(PACELINE_REDUCTION) PACELINE_SCALES(PACELINE_SCALE)
        Kernel{"paceline_copy", call<paceline_copy, CopyParameters>},
};
#undef PACELINE_REDUCTION
#undef PACELINE_SCALE

}  // namespace

bool run_on_host(std::string_view name, Dimensions grid, Dimensions block, unsigned /*shared_bytes*/,
                 void** parameters) {
  const auto* const kernel = std::ranges::find(kKernels, name, &Kernel::name);
  if (kernel == kKernels.end()) return false;
  for (unsigned at = 0; at < grid.x; ++at) {
    for (unsigned thread = 0; thread < block.x; ++thread) {
      host_thread = {thread, block.x, at, grid.x};
      kernel->run(parameters);
    }
  }
  return true;
}

}  // namespace paceline::device
