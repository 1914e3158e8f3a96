#include "segment/method_tuner.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "calibration/methods.hpp"
#include "memory/rounding.hpp"
#include "segment/segment.hpp"

namespace paceline {
namespace {

constexpr std::size_t kPage = 4096;

int size_class(std::size_t bytes) { return static_cast<int>(std::bit_width(bytes)); }

bool may_fetch(std::size_t bytes, const MethodLimits& limits) {
  return limits.readable && limits.ranks > 1 && limits.ranks <= calibration::kMostFetching &&
         bytes >= calibration::kMaybeFetchedBytes;
}

bool fetches(std::size_t bytes, const MethodLimits& limits) {
  return may_fetch(bytes, limits) && limits.ranks == 2 && bytes >= calibration::kFetchedBytes;
}

// Returns the method with a block as near to this one as there is room for.
Method method_of(Method::Kind kind, std::size_t bytes, std::size_t ranks, std::size_t block) {
  const std::size_t region = (bytes + ranks - 1) / ranks;
  const bool fetched = kind == Method::Kind::fetched;
  const std::size_t room = kPipeBytes / (fetched ? ranks - 1 : kPipeRounds * ranks) / kPage * kPage;
  // From two staged rounds on, the work of ranks overlaps.
  const std::size_t most = fetched ? room : std::min(room, rounded_up(region / 2, kPage));
  return {kind, static_cast<std::uint32_t>(std::clamp(rounded_up(block, kPage), kPage, std::max(kPage, most)))};
}

double median(std::vector<double>& of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, middle);
  return *middle;
}

}  // namespace

Method foreseen_method(std::size_t bytes, const MethodLimits& limits) {
  return method_of(fetches(bytes, limits) ? Method::Kind::fetched : Method::Kind::staged, bytes, limits.ranks,
                   limits.block);
}

std::vector<Method> methods_for(std::size_t bytes, const MethodLimits& limits) {
  const Method foreseen = foreseen_method(bytes, limits);
  std::vector<Method> found{foreseen};
  const auto add = [&](Method::Kind kind, std::size_t block) {
    const Method method = method_of(kind, bytes, limits.ranks, block);
    if (method.block >= calibration::kSmallestBlock && std::ranges::find(found, method) == found.end())
      found.push_back(method);
  };
  add(foreseen.kind, foreseen.block / 2);
  add(foreseen.kind, std::size_t{foreseen.block} * 2);
  if (may_fetch(bytes, limits))
    add(foreseen.kind == Method::Kind::fetched ? Method::Kind::staged : Method::Kind::fetched,
        limits.ranks == 2 ? limits.block : limits.block / (limits.ranks - 1));
  return found;
}

std::size_t machine_cpus() {
  static const auto cpus = static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return cpus;
}

Method MethodTuner::next(std::size_t bytes, const MethodLimits& limits) {
  Size& size = sizes_[size_class(bytes)];
  if (size.tried.empty()) {
    size.from = std::bit_floor(bytes);
    const bool crowded = limits.ranks > cpus_;
    const std::vector<Method> methods =
        crowded ? std::vector{foreseen_method(bytes, limits)} : methods_for(bytes, limits);
    for (const Method& method : methods) size.tried.push_back({.method = method});
  }
  const bool tries = size.begun < size.tried.size() * calibration::kTries;
  return size.tried[tries ? size.begun++ % size.tried.size() : size.best].method;
}

void MethodTuner::record(std::size_t bytes, const Method& method, std::chrono::nanoseconds time) {
  Size& size = sizes_[size_class(bytes)];
  const auto found = std::ranges::find(size.tried, method, &Tried::method);
  if (found == size.tried.end()) return;
  const double ns_per_byte = static_cast<double>(time.count()) / static_cast<double>(bytes);
  const std::size_t tries = size.tried.size() * calibration::kTries;
  if (size.ended == tries) {
    watch(size, method, ns_per_byte);
    return;
  }
  found->calls.push_back(ns_per_byte);
  if (++size.ended == tries) settle(size);
}

void MethodTuner::settle(Size& size) {
  for (Tried& one : size.tried) {
    one.ns_per_byte = median(one.calls);
    one.calls.clear();
  }
  const std::size_t before = size.best;
  const auto quickest = std::ranges::min_element(size.tried, {}, &Tried::ns_per_byte);
  const bool clearly = quickest->ns_per_byte < calibration::kClearly * size.tried.front().ns_per_byte;
  size.best = clearly ? static_cast<std::size_t>(quickest - size.tried.begin()) : 0;
  const bool in_vain = size.rounds++ > 0 && size.best == before;
  size.patience = in_vain ? std::min(2 * size.patience, calibration::kMostPatience) : calibration::kPatience;
}

void MethodTuner::watch(Size& size, const Method& method, double ns_per_byte) {
  const Tried& best = size.tried[size.best];
  if (size.tried.size() == 1 || method != best.method) return;
  const double usual = best.ns_per_byte;
  const bool as_usual = ns_per_byte < usual * calibration::kUnusual && ns_per_byte > usual / calibration::kUnusual;
  size.unusual = as_usual ? 0 : size.unusual + 1;
  if (size.unusual < size.patience) return;
  size.begun = size.ended = size.unusual = 0;
}

std::vector<MethodTuner::Size> MethodTuner::sizes() const {
  std::vector<Size> found;
  found.reserve(sizes_.size());
  for (const auto& [number, size] : sizes_) found.push_back(size);
  return found;
}

}  // namespace paceline
