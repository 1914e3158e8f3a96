// All kernels by their names. nvcc compiles this file for GPUs, and on_host/run.cpp includes it for the host.
#include "device/kernels/code/halves.hpp"
#include "device/kernels/code/integers.hpp"
#include "device/kernels/code/reduce.hpp"
#include "device/kernels/code/three_in_one.hpp"
#include "device/kernels/list.hpp"

namespace paceline::device {

#define PACELINE_DEFINE(dtype, element, op, operator)                                                          \
  extern "C" PACELINE_KERNEL void paceline_reduce_##dtype##_##op(PACELINE_PARAMETERS ReduceParameters given) { \
    reduce < element, operator>(given);                                                                        \
  }
PACELINE_REDUCTIONS(PACELINE_DEFINE)
#undef PACELINE_DEFINE

#define PACELINE_DEFINE(dtype, element)                                                               \
  extern "C" PACELINE_KERNEL void paceline_scale_##dtype(PACELINE_PARAMETERS ScaleParameters given) { \
    scale<element>(given);                                                                            \
  }
PACELINE_SCALES(PACELINE_DEFINE)
#undef PACELINE_DEFINE

extern "C" PACELINE_KERNEL void paceline_copy(PACELINE_PARAMETERS CopyParameters given) { copy(given); }

#define PACELINE_DEFINE(name, code, parameters, together) \
  extern "C" PACELINE_KERNEL void paceline_##name(PACELINE_PARAMETERS parameters given) { code(given); }
PACELINE_CODEC_KERNELS(PACELINE_DEFINE)
#undef PACELINE_DEFINE

}  // namespace paceline::device
