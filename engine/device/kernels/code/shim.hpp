// What a kernel may use, so that one source compiles by nvcc for the GPU and by any compiler for the host, where tests
// run it (on_host).
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#define PACELINE_DEVICE __device__ __forceinline__
#define PACELINE_KERNEL __global__
#define PACELINE_PARAMETERS const __grid_constant__
#define PACELINE_SHARED __shared__
#define PACELINE_UNROLL _Pragma("unroll")
#define PACELINE_ROLLED _Pragma("unroll 1")

namespace paceline::device {

PACELINE_DEVICE unsigned thread_in_block() { return threadIdx.x; }
PACELINE_DEVICE unsigned threads_in_block() { return blockDim.x; }
PACELINE_DEVICE unsigned block_in_grid() { return blockIdx.x; }
PACELINE_DEVICE unsigned blocks_in_grid() { return gridDim.x; }

// Waits for all threads of the block.
PACELINE_DEVICE void block_barrier() { __syncthreads(); }

}  // namespace paceline::device

#else

#include "device/kernels/on_host/thread.hpp"

#define PACELINE_DEVICE inline
#define PACELINE_KERNEL
#define PACELINE_PARAMETERS const
#define PACELINE_SHARED static thread_local
#define PACELINE_UNROLL
#define PACELINE_ROLLED

#endif

namespace paceline::device {

inline constexpr unsigned kWarp = 32;  // threads

}  // namespace paceline::device
