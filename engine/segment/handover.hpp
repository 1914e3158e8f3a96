// Copies into memory that other cores have read before: what a rank hands over to its peers.
//
// To write to a cache line a core must first get it from where it is. Where the cores share a cache that takes some 2
// ns a line; where they do not, as on two sockets or in two parts of a large processor, some 24, and nearly all of the
// time of a hand-over. Stores around the caches need not get it; but then the reader finds the data in memory, which
// takes it twice as long as from a shared cache. Which is better can change while a job runs, when threads or a virtual
// machine's CPUs are moved. So now and then the writer writes to some lines that the readers read whenever it has, and
// takes the time: it sees all of the difference, and need not ask anybody.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "memory/cache.hpp"

namespace paceline {

struct alignas(kCacheLine) ProbedLine {
  std::atomic<std::uint32_t> probe;  // the last one that wrote to it
};
using ProbedLines = std::array<ProbedLine, 32>;

class Handover {
 public:
  explicit Handover(ProbedLines& lines) : lines_(lines) {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  // What a reader does whenever it reads: looks at the writer's lines if they were written since the probe it has seen.
  static void follow(const ProbedLines& theirs, std::uint32_t& seen);

  // Notes the time that a probe took.
  void record(std::chrono::nanoseconds time);
  bool streams() const { return streams_; }

 private:
  std::chrono::nanoseconds probe();

  ProbedLines& lines_;
  std::uint32_t copies_ = 0;
  bool streams_ = false;
  int against_ = 0;  // probes in a row that say otherwise
};

}  // namespace paceline
