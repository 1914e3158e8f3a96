#include "device/kernels/launch.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

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

#define PACELINE_ENTRY(name, code, parameters, together) std::string_view{"paceline_" #name},
constexpr std::array kCodecs = {PACELINE_CODEC_KERNELS(PACELINE_ENTRY)};
#undef PACELINE_ENTRY

constexpr std::string_view kPrefix = "paceline_";
constexpr std::string_view kCopy = "paceline_copy";

constexpr auto kNames = [] {
  std::array<std::string_view, kReductions.size() + kScalings.size() + kCodecs.size() + 1> names;
  auto* next = std::ranges::transform(kReductions, names.data(), &Reduction::name).out;
  next = std::ranges::transform(kScalings, next, &Scaling::name).out;
  next = std::ranges::copy(kCodecs, next).out;
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

// The kernel `paceline_<step>_<codec>`, or nothing if there is none.
std::string_view codec_kernel(std::string_view step, Codec codec) {
  const std::string_view name = kCodecNames[static_cast<std::size_t>(codec)];
  const auto* const found = std::ranges::find_if(kCodecs, [&](std::string_view each) {
    each.remove_prefix(kPrefix.size());
    return each.starts_with(step) && each.ends_with(name) && each.size() == step.size() + 1 + name.size();
  });
  return found == kCodecs.end() ? std::string_view{} : *found;
}

// So many blocks of threads, up to what the GPU holds at once.
Launch in_blocks(std::string_view kernel, std::size_t wanted, unsigned multiprocessors) {
  const std::size_t most = std::size_t{std::max(multiprocessors, 1U)} * (kThreadsOfMultiprocessor / kThreads);
  return {kernel, {static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, most))}, {kThreads}};
}

// As many threads as there are vectors to move.
Launch over_bytes(std::string_view kernel, std::size_t bytes, unsigned multiprocessors) {
  constexpr std::size_t kBytesOfBlock = kThreads * kBytesOfThread;
  return in_blocks(kernel, (bytes + kBytesOfBlock - 1) / kBytesOfBlock, multiprocessors);
}

std::size_t codec_blocks(std::size_t elements) { return (elements + kCodecBlock - 1) / kCodecBlock; }

// A block of threads serves a block of three_in_one; the other steps are the work of one block of threads.
Launches codec_launches(std::initializer_list<std::string_view> steps, Codec codec, std::size_t elements,
                        unsigned multiprocessors) {
  Launches all;
  if (elements == 0) return all;
  for (const std::string_view step : steps) {
    const std::string_view kernel = codec_kernel(step, codec);
    if (kernel.empty()) return {};
    Launch launch = over_bytes(kernel, elements * sizeof(float), multiprocessors);
    if (codec == Codec::three_in_one) launch = in_blocks(kernel, codec_blocks(elements), multiprocessors);
    if (step == "place" || step == "find") launch.grid = {};
    all.each[all.count++] = launch;
  }
  return all;
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

Launches encode_launches(Codec codec, const EncodeParameters& parameters, unsigned multiprocessors) {
  if (codec == Codec::three_in_one)
    return codec_launches({"measure", "place", "encode"}, codec, parameters.elements, multiprocessors);
  return codec_launches({"encode"}, codec, parameters.elements, multiprocessors);
}

Launches decode_launches(Codec codec, const DecodeParameters& parameters, unsigned multiprocessors) {
  if (codec == Codec::three_in_one)
    return codec_launches({"find", "decode"}, codec, parameters.elements, multiprocessors);
  return codec_launches({"decode"}, codec, parameters.elements, multiprocessors);
}

Launches decode_and_add_launches(Codec codec, const DecodeParameters& parameters, unsigned multiprocessors) {
  if (codec == Codec::three_in_one)
    return codec_launches({"find", "decode_and_add"}, codec, parameters.elements, multiprocessors);
  return codec_launches({"decode_and_add"}, codec, parameters.elements, multiprocessors);
}

std::size_t codec_offsets(Codec codec, std::size_t elements) {
  return codec == Codec::three_in_one ? codec_blocks(elements) + 1 : 0;
}

std::span<const std::string_view> kernel_names() { return kNames; }

}  // namespace paceline::device
