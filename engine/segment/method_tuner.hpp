// In which way, and in blocks of how many bytes, large all-reduces of private buffers go on one machine.
//
// What is quickest depends on caches, on the kernel and on what lies between two cores, so it is measured: the first
// calls of each size, some milliseconds in all, go in turn in each way that may be worth it, and the quickest then
// stays. Every way gives the same bits. The first rank of a group measures and decides; the others do as it says.
// When calls take much more or less time than they did then, for good (cores that share no cache any more, see
// Handover; other jobs that came or went), all ways are tried again.
// Where ranks share CPUs the time of a call says more about whose turn it was than about its way: none is tried.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
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
  // A call is unusual if it takes so many times as long as usual, or as short. After so many in a row ways are tried
  // again; after twice as many each time that this has changed nothing.
  static constexpr double kUnusual = 1.5;
  static constexpr std::size_t kPatience = 5;
  static constexpr std::size_t kMostPatience = 80;

  struct Tried {
    Way way;
    double ns_per_byte = std::numeric_limits<double>::infinity();  // the median of the last round
    std::vector<double> calls{};                                   // of the round that is under way
  };
  // Calls of `from` to twice as many bytes.
  struct Size {
    std::size_t from = 0;
    std::vector<Tried> tried;
    std::size_t begun = 0;
    std::size_t ended = 0;
    std::size_t best = 0;     // of `tried`; until all tries have ended the first
    std::size_t rounds = 0;   // how often all have been tried
    std::size_t unusual = 0;  // calls in a row since
    std::size_t patience = kPatience;

    bool settled() const { return rounds > 0; }
  };

  explicit Ways(std::size_t cpus = machine_cpus()) : cpus_(cpus) {}

  // For the call that begins; and how long it took.
  Way next(std::size_t bytes, const WayLimits& limits);
  void took(std::size_t bytes, const Way& way, std::chrono::nanoseconds time);
  std::vector<Size> sizes() const;

 private:
  static void settle(Size& size);
  static void watch(Size& size, const Way& way, double ns_per_byte);

  std::size_t cpus_;
  std::map<int, Size> sizes_;
};

}  // namespace paceline
