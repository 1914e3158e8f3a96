// Compiled once per instruction set (see CMakeLists.txt). Nothing here may be a shared inline function: the linker
// keeps one copy of those, and it could be one that this CPU cannot run.
#include <type_traits>

#include "kernel/half.hpp"
#include "kernel/reduce.hpp"

namespace paceline {
namespace {

constexpr std::size_t kBlock = 512;  // elements per pass; a block stays in the first-level cache

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Through 64 unsigned bits: narrower types would be promoted to int and overflow.
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// A NaN in any input is a NaN in the result.
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
  static Lanes apply(Lanes a, Lanes b) { return ((a < b) | (a != a)) ? a : b; }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
  static Lanes apply(Lanes a, Lanes b) { return ((a > b) | (a != a)) ? a : b; }
};
struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

using Reduce = void (*)(std::byte*, const std::byte* const*, std::size_t, std::size_t, double);

template <typename T>
struct Loose {
  typedef T type __attribute__((aligned(1), may_alias));
};

template <typename T>
const typename Loose<T>::type* at(const std::byte* base, std::size_t index) {
  return reinterpret_cast<const typename Loose<T>::type*>(base) + index;
}

// Multiplying by the inverse of a power of two gives the same bits as dividing, and is quicker.
bool is_power_of_two(double value) {
  int exponent = 0;
  return __builtin_frexp(value, &exponent) == 0.5 && exponent > 0 && exponent < 60;
}

// Integers up to 32 bits: in floats that hold them exactly. Half a unit further from zero, no quotient is so near to a
// whole number that rounding could take it across, so that multiplying by the inverse does.
template <typename T, typename Float>
void divide_small(typename Loose<T>::type* out, std::size_t count, double divisor) {
  const auto inverse = static_cast<Float>(1 / divisor);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Float>(out[i]);
    out[i] = static_cast<T>(static_cast<std::int32_t>((value + (value < 0 ? Float(-0.5) : Float(0.5))) * inverse));
  }
}

constexpr double kMostShifted = 64;  // fits every integer

// A shift rounds down: what is added before makes it truncate.
template <typename T>
void shift(typename Loose<T>::type* out, std::size_t count, T divisor) {
  const int bits = __builtin_ctzll(static_cast<std::uint64_t>(divisor));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = out[i];
    out[i] = static_cast<T>((value + (value < 0 ? divisor - 1 : 0)) >> bits);
  }
}

// 64 bits: a quotient in double precision, that of the small remainder, and the step that rounding may have gone too
// far.
void divide_long(Loose<std::int64_t>::type* out, std::size_t count, double divisor) {
  const auto by = static_cast<std::uint64_t>(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = out[i];
    auto quotient = static_cast<std::int64_t>(static_cast<double>(value) / divisor);
    auto rest =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(quotient) * by);
    const auto more = static_cast<std::int64_t>(static_cast<double>(rest) / divisor);
    quotient += more;
    rest = static_cast<std::int64_t>(static_cast<std::uint64_t>(rest) - static_cast<std::uint64_t>(more) * by);
    quotient += (value < 0 && rest > 0) - (value > 0 && rest < 0);
    out[i] = quotient;
  }
}

template <typename T>
void divide_block(typename Loose<T>::type* out, std::size_t count, double divisor) {
  if constexpr (std::is_integral_v<T>) {
    if (is_power_of_two(divisor) && divisor <= kMostShifted)
      shift<T>(out, count, static_cast<T>(divisor));
    else if constexpr (std::is_same_v<T, std::int64_t>)
      divide_long(out, count, divisor);
    else
      divide_small<T, std::conditional_t<sizeof(T) == 4, double, float>>(out, count, divisor);
  } else if (is_power_of_two(divisor)) {
    const T factor = static_cast<T>(1 / divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = out[i] * factor;
  } else {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = out[i] / by;
  }
}

template <typename T, typename F>
void reduce_words(std::byte* to, const std::byte* const* in, std::size_t inputs, std::size_t count, double divisor) {
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = count - first < kBlock ? count - first : kBlock;
    auto* out = reinterpret_cast<typename Loose<T>::type*>(to) + first;
    const auto* a = at<T>(in[0], first);
    std::size_t next = 1;
    // The output may be any one of the inputs, so all inputs of a block but the last few go through `held`.
    T held[kBlock];
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
    if (divisor != 1) divide_block<T>(out, n, divisor);
  }
}

// out[i] = compute(i) for all elements, most of them as many at a time as a register holds: `compute` is called with a
// float or Lanes that it may fill.
template <typename Half, typename Compute>
void for_halves(std::byte* to, std::size_t count, const Compute& compute) {
  auto* out = reinterpret_cast<unsigned char*>(to);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) narrow(compute(i, Lanes{}), out + i * sizeof(Half), Half{});
  for (; i < count; ++i) narrow(compute(i, 0.0F), out + i * sizeof(Half), Half{});
}

// kInputs: how many, 0 if not known when this is compiled.
template <typename Half, typename F, std::size_t kInputs>
void fold_halves(std::byte* to, const std::byte* const* in, std::size_t inputs, std::size_t count, double divisor) {
  const std::size_t terms = kInputs == 0 ? inputs : kInputs;
  const auto by = static_cast<float>(divisor);
  const auto sum = [&](std::size_t i, auto value) {
    auto term = value;
    widen(reinterpret_cast<const unsigned char*>(in[0]) + i * sizeof(Half), Half{}, value);
    for (std::size_t k = 1; k < terms; ++k) {
      widen(reinterpret_cast<const unsigned char*>(in[k]) + i * sizeof(Half), Half{}, term);
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
void reduce_halves(std::byte* to, const std::byte* const* in, std::size_t inputs, std::size_t count, double divisor) {
  if (inputs == 2) return fold_halves<Half, F, 2>(to, in, inputs, count, divisor);
  fold_halves<Half, F, 0>(to, in, inputs, count, divisor);
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

// Bytes that hold 0 or 1: SUM and MAX are "or", PRODUCT and MIN are "and".
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
  }
  return nullptr;
}

void reduce(const Fold& fold, std::byte* out, const std::byte* const* in, std::size_t inputs, std::size_t count) {
  find(fold.dtype, fold.op)(out, in, inputs, count, fold.divisor);
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
  find(dtype, Op::sum)(out, &in, 1, count, divisor);
}

void add(float* out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

namespace PACELINE_ISA {
extern const Kernels table;
#define PACELINE_NAME(x) #x
#define PACELINE_STRING(x) PACELINE_NAME(x)
const Kernels table{PACELINE_STRING(PACELINE_ISA), reduce, scale, divide, add};
}  // namespace PACELINE_ISA

}  // namespace paceline
