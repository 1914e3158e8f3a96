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

inline constexpr unsigned kMostThreads = 1024;  // in a block

// Waits for all threads of the block.
PACELINE_DEVICE void block_barrier() { __syncthreads(); }

// The largest value, and the votes as bits, of all threads of the warp, which call this together.
PACELINE_DEVICE std::uint32_t warp_max(std::uint32_t value) { return __reduce_max_sync(0xffffffffU, value); }
PACELINE_DEVICE std::uint32_t warp_ballot(bool vote) { return __ballot_sync(0xffffffffU, vote); }

PACELINE_DEVICE unsigned population(std::uint32_t bits) { return static_cast<unsigned>(__popc(bits)); }

// How many threads of the block voted. It is a barrier too.
PACELINE_DEVICE std::uint32_t block_count(bool vote) { return static_cast<std::uint32_t>(__syncthreads_count(vote)); }

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

PACELINE_DEVICE unsigned lane() { return thread_in_block() % kWarp; }
PACELINE_DEVICE unsigned warp_in_block() { return thread_in_block() / kWarp; }

}  // namespace paceline::device
