// What a kernel's thread sees of its place, and how it waits for others, when the kernel runs on the host: see run.hpp.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline::device {

inline constexpr unsigned kMostThreads = 1024;  // in a block
inline constexpr unsigned kHostWarp = 32;

// The thread of a kernel that this thread of the host carries out at the moment.
struct HostThread {
  unsigned thread = 0;
  unsigned threads = 1;  // in the block
  unsigned block = 0;
  unsigned blocks = 1;             // in the grid
  std::uint32_t* given = nullptr;  // one word of each thread of the block, for all others to see
};
inline thread_local HostThread host_thread;

inline unsigned thread_in_block() { return host_thread.thread; }
inline unsigned threads_in_block() { return host_thread.threads; }
inline unsigned block_in_grid() { return host_thread.block; }
inline unsigned blocks_in_grid() { return host_thread.blocks; }

// Carry out other threads of the block until those of the warp, or all, wait here too (fibers.cpp).
void warp_barrier();
void block_barrier();

// The threads first to last - 1 combine a word of each.
template <typename Barrier, typename Combine>
std::uint32_t combine_words(std::uint32_t word, unsigned first, unsigned last, Barrier barrier, Combine combine) {
  std::uint32_t* const given = host_thread.given;
  given[host_thread.thread] = word;
  barrier();
  std::uint32_t all = 0;
  for (unsigned thread = first; thread < last; ++thread) all = combine(all, given[thread], thread - first);
  barrier();  // before anyone gives the next word
  return all;
}

template <typename Combine>
std::uint32_t combine_in_warp(std::uint32_t word, Combine combine) {
  const unsigned first = host_thread.thread / kHostWarp * kHostWarp;
  const unsigned last = first + kHostWarp < host_thread.threads ? first + kHostWarp : host_thread.threads;
  return combine_words(word, first, last, warp_barrier, combine);
}

inline std::uint32_t warp_max(std::uint32_t value) {
  return combine_in_warp(value, [](std::uint32_t a, std::uint32_t b, unsigned) { return a > b ? a : b; });
}

inline std::uint32_t warp_ballot(bool vote) {
  return combine_in_warp(vote ? 1 : 0,
                         [](std::uint32_t all, std::uint32_t one, unsigned lane) { return all | one << lane; });
}

inline unsigned population(std::uint32_t bits) { return static_cast<unsigned>(std::popcount(bits)); }

inline std::uint32_t block_count(bool vote) {
  return combine_words(vote ? 1 : 0, 0, host_thread.threads, block_barrier,
                       [](std::uint32_t a, std::uint32_t b, unsigned) { return a + b; });
}

}  // namespace paceline::device
