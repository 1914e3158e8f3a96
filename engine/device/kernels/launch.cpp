#include "device/kernels/launch.hpp"

#include <algorithm>
#include <array>

#include "device/kernels/list.hpp"

namespace paceline::device {

namespace {

constexpr unsigned kThreads = 256;                   // in a block
constexpr unsigned kThreadsOfMultiprocessor = 2048;  // that one holds at once; 1536 on sm_86 and sm_89
constexpr std::size_t kBytesOfThread = 16;           // that one moves at a time

struct Reduction {
  DType dtype;
  Op op;
  std::string_view name;
};

#define PACELINE_ENTRY(dtype, element, op, operator) Reduction{DType::dtype, Op::op, "paceline_reduce_" #dtype "_" #op},
constexpr std::array kReductions = {PACELINE_REDUCTIONS(PACELINE_ENTRY)};
#undef PACELINE_ENTRY

struct Scaling {
  DType dtype;
  std::string_view name;
};

#define PACELINE_ENTRY(dtype, element) Scaling{DType::dtype, "paceline_scale_" #dtype},
constexpr std::array kScalings = {PACELINE_SCALES(PACELINE_ENTRY)};
#undef PACELINE_ENTRY

constexpr std::string_view kCopy = "paceline_copy";

constexpr auto kNames = [] {
  std::array<std::string_view, kReductions.size() + kScalings.size() + 1> names;
  auto* next = std::ranges::transform(kReductions, names.data(), &Reduction::name).out;
  next = std::ranges::transform(kScalings, next, &Scaling::name).out;
  *next = kCopy;
  return names;
}();

// The reduction that stands for `op`: averages and scaled sums are sums, and bools are bytes that hold 0 or 1.
std::string_view reduction(DType dtype, Op op) {
  if (dtype == DType::boolean) {
    const bool is_and = op == Op::product || op == Op::min || op == Op::band;
    return reduction(DType::uint8, is_and ? Op::band : op == Op::bxor ? Op::bxor : Op::bor);
  }
  if (op == Op::avg || op == Op::premul_sum) op = Op::sum;
  const auto* const found =
      std::ranges::find_if(kReductions, [&](const Reduction& each) { return each.dtype == dtype && each.op == op; });
  return found == kReductions.end() ? std::string_view{} : found->name;
}

// As many threads as there are vectors to move, up to what the GPU holds at once.
Launch over_bytes(std::string_view kernel, std::size_t bytes, unsigned multiprocessors) {
  const std::size_t wanted = (bytes + kThreads * kBytesOfThread - 1) / (kThreads * kBytesOfThread);
  const std::size_t most = std::size_t{std::max(multiprocessors, 1U)} * (kThreadsOfMultiprocessor / kThreads);
  return {kernel, {static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, most))}, {kThreads}};
}

}  // namespace

Launch reduce_launch(DType dtype, Op op, const ReduceParameters& parameters, unsigned multiprocessors) {
  return over_bytes(reduction(dtype, op), parameters.count * size_of(dtype), multiprocessors);
}

Launch scale_launch(DType dtype, const ScaleParameters& parameters, unsigned multiprocessors) {
  const auto* const found = std::ranges::find(kScalings, dtype, &Scaling::dtype);
  return over_bytes(found == kScalings.end() ? std::string_view{} : found->name, parameters.count * size_of(dtype),
                    multiprocessors);
}

Launch copy_launch(const CopyParameters& parameters, unsigned multiprocessors) {
  const auto most = std::max_element(parameters.bytes, parameters.bytes + parameters.parts);
  return over_bytes(kCopy, parameters.parts == 0 ? 0 : *most, multiprocessors);
}

std::span<const std::string_view> kernel_names() { return kNames; }

}  // namespace paceline::device
