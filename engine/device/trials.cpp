#include "device/trials.hpp"

#include <algorithm>
#include <limits>

namespace paceline::device {
namespace {

constexpr std::size_t kSizes = Timings::kBytes.size();

// Bytes of a limit below which so many sizes lie.
std::size_t limit_above(std::size_t sizes) { return sizes == 0 ? 0 : 2 * Timings::kBytes[sizes - 1]; }
static_assert(2 * Timings::kBytes.back() == calibration::kDeviceOneShot, "scratch memory has room for no more");

template <typename Keep>
void merge(Timings& into, const Timings& other, Keep&& keep) {
  for (std::size_t path = 0; path < into.of.size(); ++path)
    for (std::size_t size = 0; size < kSizes; ++size)
      into.of[path][size] = keep(into.of[path][size], other.of[path][size]);
}

}  // namespace

void Timings::keep_slower(const Timings& other) {
  merge(*this, other, [](double a, double b) { return std::max(a, b); });
}

void Timings::keep_faster(const Timings& other) {
  merge(*this, other, [](double a, double b) { return std::min(a, b); });
}

double Timings::total() const {
  double sum = 0;
  for (const Row& row : of)
    for (const double time : row) sum += time;
  return sum;
}

// A product of so few times neither overflows nor vanishes, and unlike a sum of logarithms is the same bit for bit
// wherever ranks run.
Limits limits_from(const Timings& timings) {
  const auto& [host, one_shot, two_shot] = timings.of;
  Limits best{.measured = true};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first <= kSizes; ++first)
    for (std::size_t second = first; second <= kSizes; ++second) {
      double product = 1;
      for (std::size_t size = 0; size < kSizes; ++size)
        product *= size < first ? host[size] : size < second ? one_shot[size] : two_shot[size];
      if (product >= least) continue;
      least = product;
      best.host = limit_above(first);
      best.one_shot = limit_above(second);
    }
  return best;
}

Limits find_limits(const std::function<double(Path, std::size_t bytes)>& timed,
                   const std::function<Timings(const Timings&)>& slowest) {
  const auto round = [&] {
    Timings mine;
    for (std::size_t path = 0; path < Timings::kPaths.size(); ++path)
      for (std::size_t size = 0; size < kSizes; ++size)
        mine.of[path][size] = timed(Timings::kPaths[path], Timings::kBytes[size]);
    return slowest(mine);
  };
  constexpr double kEnough = std::chrono::nanoseconds(calibration::kDeviceTrialTime).count();
  round();  // kernels are loaded and memory is opened
  Timings best = round();
  double spent = best.total();
  for (int again = 1; again < calibration::kDeviceTrialRounds && spent < kEnough; ++again) {
    const Timings next = round();
    spent += next.total();
    best.keep_faster(next);  // what disturbs a trial only makes it longer
  }
  return limits_from(best);
}

}  // namespace paceline::device
