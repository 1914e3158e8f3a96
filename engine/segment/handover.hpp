// Copies what a rank hands over to its peers, into memory that other cores have read before.
//
// To write to a cache line, a core must first get it from where it is. That takes about 2 ns a line if the cores share
// a cache. If they do not, as on two sockets or in two parts of a large processor, it takes about 24 ns, which is
// nearly all of the time of a hand-over. Stores around the caches need not get the line, but then the reader finds the
// data in memory, which takes twice as long as from a shared cache. Which way is better can change while a job runs,
// when threads or the CPUs of a virtual machine are moved. So now and then the writer takes the time of writing to some
// lines that its readers read each time: it sees all of the difference, and need not ask any other rank.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "memory/cache.hpp"

namespace paceline {

struct alignas(kCacheLine) ProbedLine {
  std::atomic<std::uint32_t> probe;  // the number of the last probe that wrote to this line
};
using ProbedLines = std::array<ProbedLine, 32>;

class Handover {
 public:
  explicit Handover(ProbedLines& lines) : lines_(lines) {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  // A reader calls this whenever it reads: it looks at the writer's lines if they were written since the last probe
  // that it has seen.
  static void follow(const ProbedLines& theirs, std::uint32_t& seen);

  // Notes the time that a probe took.
  void record(std::chrono::nanoseconds time);
  bool streams() const { return streams_; }

 private:
  std::chrono::nanoseconds probe();

  ProbedLines& lines_;
  std::uint32_t copies_ = 0;
  bool streams_ = false;
  int against_ = 0;  // probes in a row that speak for the other way
};

}  // namespace paceline
