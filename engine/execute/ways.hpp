// In which way, and in blocks of how many bytes, large all-reduces of private buffers go on one machine.
//
// What is quickest depends on caches, on the kernel and on what lies between two cores, so it is measured: the first
// calls of each size, some milliseconds in all, go in turn in each way that may be worth it, and the quickest then
// stays. Every way gives the same bits. The first rank of a group measures and decides; the others do as it says.
// Where ranks share CPUs the time of a call says more about whose turn it was than about its way: none is tried.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace paceline {

// The rounds that a pipe holds at least.
inline constexpr std::size_t kPipeRounds = 2;

struct Way {
  enum class Kind : std::uint8_t { staged, fetched };  // see SharedAllReduce

  Kind kind = Kind::staged;
  std::uint32_t block = 0;  // bytes that ranks hand to each other at once

  bool operator==(const Way&) const = default;
};

struct WayLimits {
  std::size_t ranks = 0;
  bool readable = false;  // each rank may read the others' memory
  std::size_t block = 0;  // what fits the caches, see Caches
};

// What is expected to be the quickest; and what may be tried, that first.
Way foreseen_way(std::size_t bytes, const WayLimits& limits);
std::vector<Way> ways_for(std::size_t bytes, const WayLimits& limits);

// Those that this process is not bound to, too.
std::size_t machine_cpus();

class Ways {
 public:
  // Calls of each way. The one in the middle counts: some are interrupted, some are lucky.
  static constexpr std::size_t kTries = 5;
  // Share of the foreseen way's time that another one must stay below. Less is noise.
  static constexpr double kClearly = 0.9;

  struct Tried {
    Way way;
    std::vector<double> all;  // nanoseconds per byte of each call

    double ns_per_byte() const;  // the median; infinite if it was not tried
  };
  // Calls of `from` to twice as many bytes.
  struct Size {
    std::size_t from = 0;
    std::vector<Tried> tried;
    std::size_t begun = 0;
    std::size_t ended = 0;
    std::size_t best = 0;  // of `tried`; until all tries have ended the first

    bool settled() const { return ended >= tried.size() * kTries; }
  };

  explicit Ways(std::size_t cpus = machine_cpus()) : cpus_(cpus) {}

  // For the call that begins. `tries` says whether its time is to be told.
  Way next(std::size_t bytes, const WayLimits& limits, bool& tries);
  void took(std::size_t bytes, const Way& way, std::chrono::nanoseconds time);
  std::vector<Size> sizes() const;

 private:
  std::size_t cpus_;
  std::map<int, Size> sizes_;
};

}  // namespace paceline
