// This file is compiled once per instruction set (see CMakeLists.txt). Nothing here may be a shared inline function:
// the linker keeps one copy of those, and it could be one that this CPU cannot run.
#include <type_traits>

#include "kernel/divide.hpp"
#include "kernel/half_lanes.hpp"
#include "kernel/operators.hpp"
#include "kernel/reduce.hpp"
#include "kernel/words.hpp"

namespace paceline {
namespace {

constexpr std::size_t kBlock = 512;  // elements per pass; a block stays in the first-level cache

using Reduce = void (*)(std::byte* const*, std::size_t, const std::byte* const*, std::size_t, std::size_t, double);

// Reduces one block to one output, which may be any of the inputs: so all inputs but the last few go through `held`.
template <typename T, typename F>
void combine(typename Loose<T>::type* out, const std::byte* const* in, std::size_t inputs, std::size_t first,
             std::size_t n) {
  const auto* a = at<T>(in[0], first);
  if (inputs == 1) {
    for (std::size_t i = 0; i < n; ++i) out[i] = a[i];
  } else if (inputs == 2) {
    const auto* b = at<T>(in[1], first);
    for (std::size_t i = 0; i < n; ++i) out[i] = F::apply(T(a[i]), T(b[i]));
  } else if (inputs == 3) {
    const auto* b = at<T>(in[1], first);
    const auto* c = at<T>(in[2], first);
    for (std::size_t i = 0; i < n; ++i) out[i] = F::apply(F::apply(T(a[i]), T(b[i])), T(c[i]));
  } else {
    T held[kBlock];
    std::size_t next = 1;
    for (std::size_t i = 0; i < n; ++i) held[i] = a[i];
    for (; next + 1 < inputs; next += 2) {
      const auto* b = at<T>(in[next], first);
      const auto* c = at<T>(in[next + 1], first);
      for (std::size_t i = 0; i < n; ++i) held[i] = F::apply(F::apply(held[i], T(b[i])), T(c[i]));
    }
    if (next < inputs) {
      const auto* b = at<T>(in[next], first);
      for (std::size_t i = 0; i < n; ++i) held[i] = F::apply(held[i], T(b[i]));
    }
    for (std::size_t i = 0; i < n; ++i) out[i] = held[i];
  }
}

// Adds up floats to several outputs in one pass: nothing waits while a result is passed on. Returns how many elements
// were done; a few are left for others. kRanks is the number of inputs and outputs, or 0 if the compiler cannot know
// it.
template <typename T, std::size_t kRanks>
std::size_t sum_to_all(std::byte* const* to, std::size_t outputs, const std::byte* const* in, std::size_t inputs,
                       std::size_t count, T factor) {
  const std::size_t sources = kRanks == 0 ? inputs : kRanks;
  const std::size_t places = kRanks == 0 ? outputs : kRanks;
  typedef T Vector __attribute__((vector_size(64)));
  typedef Vector Anywhere __attribute__((aligned(1), may_alias));  // lost by `auto`
  constexpr std::size_t kVectors = 4;
  constexpr std::size_t kStep = kVectors * sizeof(Vector) / sizeof(T);
  std::size_t first = 0;
  for (; first + kStep <= count; first += kStep) {
    Vector sum[kVectors];
    const Anywhere* from = reinterpret_cast<const Anywhere*>(at<T>(in[0], first));
    for (std::size_t i = 0; i < kVectors; ++i) sum[i] = from[i];
    for (std::size_t k = 1; k < sources; ++k) {
      from = reinterpret_cast<const Anywhere*>(at<T>(in[k], first));
      for (std::size_t i = 0; i < kVectors; ++i) sum[i] += from[i];
    }
    for (std::size_t i = 0; i < kVectors; ++i) sum[i] *= factor;
    for (std::size_t k = 0; k < places; ++k) {
      Anywhere* out = reinterpret_cast<Anywhere*>(reinterpret_cast<typename Loose<T>::type*>(to[k]) + first);
      for (std::size_t i = 0; i < kVectors; ++i) out[i] = sum[i];
    }
  }
  return first;
}

// Copies `block` to all outputs.
void pass_on(std::byte* const* to, std::size_t outputs, std::size_t offset, const std::byte* block, std::size_t bytes) {
  for (std::size_t k = 0; k < outputs; ++k) __builtin_memcpy(to[k] + offset, block, bytes);
}

template <typename T, typename F>
void reduce_words(std::byte* const* to, std::size_t outputs, const std::byte* const* in, std::size_t inputs,
                  std::size_t count, double divisor) {
  std::size_t first = 0;
  if constexpr (std::is_floating_point_v<T> && std::is_same_v<F, Sum>) {
    if ((outputs > 1 || inputs > 3) && (divisor == 1 || is_power_of_two(divisor))) {
      const bool two = outputs == 2 && inputs == 2;
      const auto sum = two ? sum_to_all<T, 2> : sum_to_all<T, 0>;
      first = sum(to, outputs, in, inputs, count, static_cast<T>(1 / divisor));
    }
  }
  for (; first < count; first += kBlock) {
    const std::size_t n = count - first < kBlock ? count - first : kBlock;
    T block[kBlock];
    auto* out = outputs == 1 ? reinterpret_cast<typename Loose<T>::type*>(to[0]) + first : block;
    combine<T, F>(out, in, inputs, first, n);
    if (divisor != 1) divide_block<T>(out, n, divisor);
    if (outputs > 1) pass_on(to, outputs, first * sizeof(T), reinterpret_cast<const std::byte*>(block), n * sizeof(T));
  }
}

// Sets out[i] = compute(i) for all elements, mostly as many at a time as a register holds: `compute` is called with a
// float or Lanes that it fills.
template <typename Half, typename Compute>
void for_halves(std::byte* to, std::size_t count, const Compute& compute) {
  auto* out = reinterpret_cast<unsigned char*>(to);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) narrow(compute(i, Lanes{}), out + i * sizeof(Half), Half{});
  for (; i < count; ++i) narrow(compute(i, 0.0F), out + i * sizeof(Half), Half{});
}

// Reduces `count` elements from `first` on. kInputs is the number of inputs, or 0 if the compiler cannot know it.
template <typename Half, typename F, std::size_t kInputs>
void fold_halves(std::byte* to, const std::byte* const* in, std::size_t inputs, std::size_t first, std::size_t count,
                 double divisor) {
  const std::size_t terms = kInputs == 0 ? inputs : kInputs;
  const auto by = static_cast<float>(divisor);
  const auto sum = [&](std::size_t i, auto value) {
    auto term = value;
    widen(reinterpret_cast<const unsigned char*>(in[0]) + (first + i) * sizeof(Half), Half{}, value);
    for (std::size_t k = 1; k < terms; ++k) {
      widen(reinterpret_cast<const unsigned char*>(in[k]) + (first + i) * sizeof(Half), Half{}, term);
      value = F::apply(value, term);
    }
    return value;
  };
  if (divisor == 1)
    for_halves<Half>(to, count, sum);
  else if (const float factor = 1 / by; is_power_of_two(by))
    for_halves<Half>(to, count, [&](std::size_t i, auto value) { return sum(i, value) * factor; });
  else
    for_halves<Half>(to, count, [&](std::size_t i, auto value) { return sum(i, value) / by; });
}

template <typename Half, typename F>
void reduce_halves(std::byte* const* to, std::size_t outputs, const std::byte* const* in, std::size_t inputs,
                   std::size_t count, double divisor) {
  const auto fold = inputs == 2 ? fold_halves<Half, F, 2> : fold_halves<Half, F, 0>;
  if (outputs == 1) return fold(to[0], in, inputs, 0, count, divisor);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = count - first < kBlock ? count - first : kBlock;
    std::byte block[kBlock * sizeof(Half)];
    fold(block, in, inputs, first, n, divisor);
    pass_on(to, outputs, first * sizeof(Half), block, n * sizeof(Half));
  }
}

template <typename T>
Reduce for_integer(Op op) {
  switch (op) {
    case Op::product: return reduce_words<T, Product>;
    case Op::min: return reduce_words<T, Min>;
    case Op::max: return reduce_words<T, Max>;
    case Op::band: return reduce_words<T, And>;
    case Op::bor: return reduce_words<T, Or>;
    case Op::bxor: return reduce_words<T, Xor>;
    default: return reduce_words<T, Sum>;
  }
}

template <typename T>
Reduce for_float(Op op) {
  switch (op) {
    case Op::product: return reduce_words<T, Product>;
    case Op::min: return reduce_words<T, Min>;
    case Op::max: return reduce_words<T, Max>;
    default: return reduce_words<T, Sum>;
  }
}

template <typename Half>
Reduce for_half(Op op) {
  switch (op) {
    case Op::product: return reduce_halves<Half, Product>;
    case Op::min: return reduce_halves<Half, Min>;
    case Op::max: return reduce_halves<Half, Max>;
    default: return reduce_halves<Half, Sum>;
  }
}

// Reduces bytes that hold 0 or 1: SUM and MAX are "or", PRODUCT and MIN are "and".
Reduce for_bool(Op op) {
  switch (op) {
    case Op::product:
    case Op::min:
    case Op::band: return reduce_words<std::uint8_t, And>;
    case Op::bxor: return reduce_words<std::uint8_t, Xor>;
    default: return reduce_words<std::uint8_t, Or>;
  }
}

Reduce find(DType dtype, Op op) {
  switch (dtype) {
    case DType::float16: return for_half<Float16>(op);
    case DType::bfloat16: return for_half<BFloat16>(op);
    case DType::float32: return for_float<float>(op);
    case DType::float64: return for_float<double>(op);
    case DType::int8: return for_integer<std::int8_t>(op);
    case DType::uint8: return for_integer<std::uint8_t>(op);
    case DType::int32: return for_integer<std::int32_t>(op);
    case DType::int64: return for_integer<std::int64_t>(op);
    case DType::boolean: return for_bool(op);
    default: return nullptr;  // it is only moved
  }
}

void reduce_to_all(const Fold& fold, std::byte* const* out, std::size_t outputs, const std::byte* const* in,
                   std::size_t inputs, std::size_t count) {
  find(fold.dtype, fold.op)(out, outputs, in, inputs, count, fold.divisor);
}

void reduce(const Fold& fold, std::byte* out, const std::byte* const* in, std::size_t inputs, std::size_t count) {
  reduce_to_all(fold, &out, 1, in, inputs, count);
}

template <typename T>
void scale_words(std::byte* to, const std::byte* from, std::size_t count, double factor) {
  auto* out = reinterpret_cast<typename Loose<T>::type*>(to);
  const auto* in = at<T>(from, 0);
  const T by = static_cast<T>(factor);
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] * by;
}

template <typename Half>
void scale_halves(std::byte* to, const std::byte* from, std::size_t count, double factor) {
  const auto by = static_cast<float>(factor);
  for_halves<Half>(to, count, [&](std::size_t i, auto value) {
    widen(reinterpret_cast<const unsigned char*>(from) + i * sizeof(Half), Half{}, value);
    return value * by;
  });
}

void scale(DType dtype, std::byte* out, const std::byte* in, std::size_t count, double factor) {
  switch (dtype) {
    case DType::float16: return scale_halves<Float16>(out, in, count, factor);
    case DType::bfloat16: return scale_halves<BFloat16>(out, in, count, factor);
    case DType::float32: return scale_words<float>(out, in, count, factor);
    case DType::float64: return scale_words<double>(out, in, count, factor);
    default: return;
  }
}

void divide(DType dtype, std::byte* out, const std::byte* in, std::size_t count, double divisor) {
  find(dtype, Op::sum)(&out, 1, &in, 1, count, divisor);
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  typedef std::uint64_t Vector __attribute__((vector_size(64)));
  typedef Vector Anywhere __attribute__((aligned(1), may_alias));  // lost by `auto`
  constexpr std::size_t kVectors = 4;
  std::size_t done = 0;
  for (; done + kVectors * sizeof(Vector) <= bytes; done += kVectors * sizeof(Vector)) {
    const Anywhere* in = reinterpret_cast<const Anywhere*>(from + done);
    Anywhere* out = reinterpret_cast<Anywhere*>(to + done);
    Vector held[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) held[i] = in[i];
    for (std::size_t i = 0; i < kVectors; ++i) out[i] = held[i];
  }
  __builtin_memcpy(to + done, from + done, bytes - done);
}

}  // namespace

namespace PACELINE_ISA {
extern const Kernels table;
#define PACELINE_NAME(x) #x
#define PACELINE_STRING(x) PACELINE_NAME(x)
const Kernels table{PACELINE_STRING(PACELINE_ISA), reduce, reduce_to_all, scale, divide, copy};
}  // namespace PACELINE_ISA

}  // namespace paceline
