// What a kernel's thread sees of its place when the kernel runs on the host: see run.hpp.
#pragma once

#include <cstdint>

namespace paceline::device {

// The thread of a kernel that this thread of the host carries out at the moment.
struct HostThread {
  unsigned thread = 0;
  unsigned threads = 1;  // in the block
  unsigned block = 0;
  unsigned blocks = 1;  // in the grid
};
inline thread_local HostThread host_thread;

inline unsigned thread_in_block() { return host_thread.thread; }
inline unsigned threads_in_block() { return host_thread.threads; }
inline unsigned block_in_grid() { return host_thread.block; }
inline unsigned blocks_in_grid() { return host_thread.blocks; }

}  // namespace paceline::device
