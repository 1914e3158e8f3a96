// The kernels of reductions against the CPU's: every dtype, op and number of ranks, at any size and alignment.
#include <cmath>
#include <cstring>
#include <random>

#include "kernel/half.hpp"
#include "kernel/reduce.hpp"
#include "tests/check.hpp"
#include "tests/device/kernels/buffers.hpp"

using namespace paceline;
using namespace paceline::device;
using namespace paceline::test;

namespace {

template <typename T>
bool is_nan(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else if constexpr (std::is_class_v<T>)
    return std::isnan(widen(value));
  else
    return false;
}

bool is_nan(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::float16: return is_nan<Float16>(at);
    case DType::bfloat16: return is_nan<BFloat16>(at);
    case DType::float32: return is_nan<float>(at);
    case DType::float64: return is_nan<double>(at);
    default: return false;
  }
}

// The same bits, or a NaN in both: processors differ in the bits of a NaN.
bool same(DType dtype, const Bytes& a, const Bytes& b) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < a.size(); i += size)
    if (std::memcmp(&a[i], &b[i], size) != 0 && !(is_nan(dtype, &a[i]) && is_nan(dtype, &b[i]))) return false;
  return a.size() == b.size();
}

// Any bits, so that there are NaNs, infinities, subnormal numbers and overflows too; but bools are 0 or 1.
void fill(Buffer& buffer, DType dtype, std::mt19937& random) {
  for (std::size_t i = 0; i < buffer.bytes; ++i)
    buffer.data()[i] = static_cast<std::byte>(dtype == DType::boolean ? random() % 2 : random() % 256);
}

template <typename Check>
void for_each_reduction(const Check& check) {
  for (std::size_t dtype = 0; dtype < kDTypeNames.size(); ++dtype)
    for (std::size_t op = 0; op < kOpNames.size(); ++op)
      if (supports(static_cast<DType>(dtype), static_cast<Op>(op)))
        check(static_cast<DType>(dtype), static_cast<Op>(op));
}

struct Trial {
  std::size_t count;  // elements
  std::size_t inputs;
  std::size_t outputs;
  bool in_place;
  bool congruent;  // all at the same distance from a multiple of 16 bytes
};

void try_reduction(DType dtype, Op op, const Trial& trial, std::mt19937& random) {
  const std::size_t bytes = trial.count * size_of(dtype);
  const std::size_t offset = random() % 2 == 0 ? 0 : random() % 32;
  const auto next_offset = [&] { return trial.congruent ? offset : random() % 32; };
  std::vector<Buffer> in;
  std::vector<Buffer> out;
  for (std::size_t k = 0; k < trial.inputs; ++k) fill(in.emplace_back(bytes, next_offset()), dtype, random);
  for (std::size_t k = 0; k < trial.outputs; ++k) out.emplace_back(bytes, next_offset());

  ReduceParameters parameters{};
  parameters.count = trial.count;
  parameters.divisor = op == Op::avg ? static_cast<double>(1 + random() % 9) : 1;
  parameters.inputs = static_cast<std::uint32_t>(trial.inputs);
  parameters.outputs = static_cast<std::uint32_t>(trial.outputs);
  for (std::size_t k = 0; k < trial.inputs; ++k) parameters.in[k] = in[k].data();
  for (std::size_t k = 0; k < trial.outputs; ++k)
    parameters.out[k] = trial.in_place && k < trial.inputs ? in[k].data() : out[k].data();

  Bytes expected(bytes);
  kernels().reduce({dtype, op, parameters.divisor}, expected.data(), parameters.in, trial.inputs, trial.count);
  run(reduce_launch(dtype, op, parameters, kMultiprocessors), parameters);
  for (std::size_t k = 0; k < trial.outputs; ++k)
    CHECK(same(dtype, {parameters.out[k], parameters.out[k] + bytes}, expected));
  for (const Buffer& each : in) CHECK(each.guarded());
  for (const Buffer& each : out) CHECK(each.guarded());
}

}  // namespace

TEST(reductions_are_those_of_the_cpu) {
  std::mt19937 random(1);
  for_each_reduction([&](DType dtype, Op op) {
    for (std::size_t inputs = 1; inputs <= kMostInputs; ++inputs)
      for (const bool congruent : {true, false})
        for (const bool in_place : {true, false})
          try_reduction(dtype, op, {random() % 700, inputs, 1 + random() % kMostInputs, in_place, congruent}, random);
  });
}

TEST(small_counts_have_no_vector) {
  std::mt19937 random(2);
  for_each_reduction([&](DType dtype, Op op) {
    for (std::size_t count = 0; count <= 33; ++count)
      try_reduction(dtype, op, {count, 2, 1, count % 2 == 0, true}, random);
  });
}

TEST(threads_take_more_than_one_vector) {
  std::mt19937 random(3);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::uint8})
    try_reduction(dtype, Op::sum, {200'003, 3, 2, false, true}, random);
}

TEST(scaling_is_that_of_the_cpu) {
  std::mt19937 random(4);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const double factor : {0.5, 3.0, 1.0 / 3}) {
      for (const std::size_t to : {0UL, 1UL, 5UL}) {
        const std::size_t count = random() % 700;
        Buffer in(count * size_of(dtype), to == 5 ? 5 : 0);
        Buffer out(in.bytes, to);
        fill(in, dtype, random);
        ScaleParameters parameters{in.data(), to == 5 ? in.data() : out.data(), count, factor};
        Bytes expected(in.bytes);
        kernels().scale(dtype, expected.data(), in.data(), count, factor);
        run(scale_launch(dtype, parameters, kMultiprocessors), parameters);
        CHECK(same(dtype, {parameters.out, parameters.out + in.bytes}, expected));
        CHECK(in.guarded() && out.guarded());
      }
    }
  }
}

TEST(copies_are_exact_at_any_alignment) {
  std::mt19937 random(5);
  for (std::uint32_t parts = 0; parts <= kMostInputs; ++parts) {
    std::vector<Buffer> from;
    std::vector<Buffer> to;
    CopyParameters parameters{};
    parameters.parts = parts;
    for (std::uint32_t k = 0; k < parts; ++k) {
      const std::size_t bytes = random() % 3000;
      const std::size_t offset = random() % 32;
      fill(from.emplace_back(bytes, offset), DType::uint8, random);
      to.emplace_back(bytes, k % 2 == 0 ? offset : random() % 32);
      parameters.bytes[k] = bytes;
    }
    for (std::uint32_t k = 0; k < parts; ++k) {
      parameters.from[k] = from[k].data();
      parameters.to[k] = to[k].data();
    }
    run(copy_launch(parameters, kMultiprocessors), parameters);
    for (std::uint32_t k = 0; k < parts; ++k) CHECK(to[k].copy() == from[k].copy() && to[k].guarded());
  }
}
