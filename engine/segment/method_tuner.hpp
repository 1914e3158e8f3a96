// Chooses the method, and the block size, of large all-reduces of private buffers on one machine.
//
// Which method is fastest depends on the caches, the kernel and the connection between two cores, so it is measured:
// the first calls of each size, which last some milliseconds in all, cycle through every method that may be worth it;
// the fastest one is then kept. All methods give the same bits. The first rank of a group measures and decides; the
// other ranks do as it says. All methods are tried again when calls take much more or much less time than they did then
// and go on doing so: because two cores no longer share a cache (see Handover), or because other jobs came or went.
// Nothing is tried where ranks outnumber CPUs: the time of a call then depends on the scheduler more than on the
// method.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "calibration/methods.hpp"

namespace paceline {

// A pipe holds at least this many rounds.
inline constexpr std::size_t kPipeRounds = 2;

struct Method {
  enum class Kind : std::uint8_t { staged, fetched };  // see SharedAllReduce

  Kind kind = Kind::staged;
  std::uint32_t block = 0;  // the bytes that ranks hand to each other at once

  bool operator==(const Method&) const = default;
};

struct MethodLimits {
  std::size_t ranks = 0;
  bool readable = false;  // whether each rank may read the others' memory
  std::size_t block = 0;  // the bytes that fit the caches, see Caches
};

// Return the method that is expected to be the fastest, and all that may be tried, the expected one first.
Method foreseen_method(std::size_t bytes, const MethodLimits& limits);
std::vector<Method> methods_for(std::size_t bytes, const MethodLimits& limits);

// Returns how many CPUs of this machine are online, including those that this process may not use.
std::size_t machine_cpus();

class MethodTuner {
 public:
  struct Tried {
    Method method;
    double ns_per_byte = std::numeric_limits<double>::infinity();  // the median of the last round
    std::vector<double> calls{};                                   // ns per byte, in the round that is under way
  };
  // What is known of calls of `from` to twice as many bytes.
  struct Size {
    std::size_t from = 0;
    std::vector<Tried> tried;
    std::size_t begun = 0;
    std::size_t ended = 0;
    std::size_t best = 0;     // an index of `tried`; the first until all tries have ended
    std::size_t rounds = 0;   // how often all methods have been tried
    std::size_t unusual = 0;  // calls in a row since then that took an unusual time
    std::size_t patience = calibration::kPatience;

    bool settled() const { return rounds > 0; }
  };

  explicit MethodTuner(std::size_t cpus = machine_cpus()) : cpus_(cpus) {}

  // Returns the method for the call that begins now.
  Method next(std::size_t bytes, const MethodLimits& limits);
  // That call took `time`.
  void record(std::size_t bytes, const Method& method, std::chrono::nanoseconds time);
  std::vector<Size> sizes() const;

 private:
  static void settle(Size& size);
  static void watch(Size& size, const Method& method, double ns_per_byte);

  std::size_t cpus_;
  std::map<int, Size> sizes_;
};

}  // namespace paceline
