#include "device/kernels/on_host/run.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "device/kernels/code/all.cu"
#include "device/kernels/on_host/fibers.hpp"

namespace paceline::device {

namespace {

struct Kernel {
  std::string_view name;
  void (*run)(void** parameters);
  bool together = false;  // its threads wait for each other
};

template <auto kKernel, typename Parameters>
void call(void** parameters) {
  kKernel(*static_cast<const Parameters*>(parameters[0]));
}

#define PACELINE_REDUCTION(dtype, element, op, operator) \
  Kernel{"paceline_reduce_" #dtype "_" #op, call<paceline_reduce_##dtype##_##op, ReduceParameters>},
#define PACELINE_SCALE(dtype, element) Kernel{"paceline_scale_" #dtype, call<paceline_scale_##dtype, ScaleParameters>},
#define PACELINE_CODEC(name, code, parameters, together) \
  Kernel{"paceline_" #name, call<paceline_##name, parameters>, together},
constexpr std::array kKernels = {PACELINE_REDUCTIONS(PACELINE_REDUCTION) PACELINE_SCALES(PACELINE_SCALE)
                                     Kernel{"paceline_copy", call<paceline_copy, CopyParameters>},
                                 PACELINE_CODEC_KERNELS(PACELINE_CODEC)};
#undef PACELINE_REDUCTION
#undef PACELINE_SCALE
#undef PACELINE_CODEC

// Runs one block of threads after the other, as fibers.
void run_together(const Kernel& kernel, Dimensions grid, Dimensions block, void** parameters) {
  struct Call {
    const Kernel& kernel;
    void** parameters;
  } call{kernel, parameters};
  thread_local std::unique_ptr<Fibers> kept;  // their stacks are megabytes, which the next kernel finds touched
  if (kept == nullptr || kept->threads() != block.x) kept = std::make_unique<Fibers>(block.x);
  std::vector<std::uint32_t> given(block.x);
  for (unsigned at = 0; at < grid.x; ++at) {
    host_thread = {0, block.x, at, grid.x, given.data()};
    kept->run(
        [](void* argument) {
          const auto& [of, with] = *static_cast<const Call*>(argument);
          of.run(with);
        },
        &call);
  }
}

// Runs one thread after the other.
void run_alone(const Kernel& kernel, Dimensions grid, Dimensions block, void** parameters) {
  for (unsigned at = 0; at < grid.x; ++at) {
    for (unsigned thread = 0; thread < block.x; ++thread) {
      host_thread = {thread, block.x, at, grid.x};
      kernel.run(parameters);
    }
  }
}

}  // namespace

bool run_on_host(std::string_view name, Dimensions grid, Dimensions block, unsigned /*shared_bytes*/,
                 void** parameters) {
  const auto* const kernel = std::ranges::find(kKernels, name, &Kernel::name);
  if (kernel == kKernels.end()) return false;
  (kernel->together ? run_together : run_alone)(*kernel, grid, block, parameters);
  return true;
}

}  // namespace paceline::device
