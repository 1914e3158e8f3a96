// Every dtype and reduction, in every instruction set of this CPU, against the plain meaning of the operation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernel/half.hpp"
#include "kernel/reduce.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

template <typename T>
double plain(Op op, double a, double b) {
  switch (op) {
    case Op::product: return a * b;
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::band: return static_cast<double>(static_cast<std::int64_t>(a) & static_cast<std::int64_t>(b));
    case Op::bor: return static_cast<double>(static_cast<std::int64_t>(a) | static_cast<std::int64_t>(b));
    case Op::bxor: return static_cast<double>(static_cast<std::int64_t>(a) ^ static_cast<std::int64_t>(b));
    default: return a + b;
  }
}

template <typename T>
void put(std::byte* base, std::size_t index, double value) {
  const T element = static_cast<T>(value);
  std::memcpy(base + index * sizeof(T), &element, sizeof(T));
}

template <typename T>
double get(const std::byte* base, std::size_t index) {
  T element;
  std::memcpy(&element, base + index * sizeof(T), sizeof(T));
  return static_cast<double>(element);
}

// Small integers: every sum, product and comparison of them is exact in every dtype.
template <typename T>
void check_dtype(const Kernels& kernels, DType dtype) {
  std::mt19937 random(7);
  for (int number = 0; number < 9; ++number) {
    const Op op = static_cast<Op>(number);
    if (!supports(dtype, op) || op == Op::premul_sum) continue;
    for (const std::size_t count : {0UL, 1UL, 7UL, 64UL, 511UL, 513UL, 1500UL}) {
      for (const std::size_t inputs : {1UL, 2UL, 3UL, 4UL, 5UL, 6UL}) {
        for (const std::size_t offset : {0UL, 1UL}) {
          for (const bool in_place : {false, true}) {
            std::vector<std::vector<std::byte>> memory(inputs, std::vector<std::byte>(count * sizeof(T) + 8));
            std::vector<std::byte> result(count * sizeof(T) + 8);
            std::vector<double> expected(count);
            std::vector<const std::byte*> in;
            for (std::size_t k = 0; k < inputs; ++k) {
              for (std::size_t i = 0; i < count; ++i) {
                const double value = 1 + static_cast<double>(random() % 2);
                put<T>(memory[k].data() + offset, i, value);
                expected[i] = k == 0 ? value : plain<T>(op, expected[i], value);
              }
              in.push_back(memory[k].data() + offset);
            }
            std::byte* out = in_place ? memory.back().data() + offset : result.data() + offset;
            const double divisor = op == Op::avg ? 2 : 1;
            kernels.reduce({dtype, op, divisor}, out, in.data(), inputs, count);
            const auto is_right = [&](const std::byte* found) {
              for (std::size_t i = 0; i < count; ++i) {
                double want = expected[i] / divisor;
                if (std::is_integral_v<T>) want = std::trunc(want);
                CHECK(get<T>(found, i) == want);
              }
            };
            is_right(out);
            if (in_place) continue;
            // To all inputs, as ranks do that see each other's; and with one output that is none.
            std::vector<std::byte*> all{result.data() + offset};
            for (auto& one : memory) all.push_back(one.data() + offset);
            const auto first = all.begin() + static_cast<std::ptrdiff_t>(random() % 2);
            std::fill(result.begin(), result.end(), std::byte{0});
            kernels.reduce_to_all({dtype, op, divisor}, &*first, static_cast<std::size_t>(all.end() - first), in.data(),
                                  inputs, count);
            std::for_each(first, all.end(), is_right);
          }
        }
      }
    }
  }
}

// The kernels divide without dividing where they can: the quotients must be those of `/`, truncated for integers.
template <typename T>
void check_division(const Kernels& kernels, DType dtype) {
  std::mt19937_64 random(3);
  std::vector<T> values;
  if constexpr (std::is_integral_v<T>) {
    for (const T edge : {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()})
      for (int i = 0; i < 40; ++i) values.push_back(static_cast<T>(edge + (edge > 0 ? -i : i)));
    for (int i = -300; i < 300; ++i) values.push_back(static_cast<T>(i));
    for (int i = 0; i < 20'000; ++i) values.push_back(static_cast<T>(random() >> (random() % 64)));
  } else {
    for (int i = 0; i < 20'000; ++i)
      values.push_back(
          static_cast<T>(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 190)));
    values.push_back(std::numeric_limits<T>::infinity());
    values.push_back(std::numeric_limits<T>::denorm_min());
  }
  for (const int divisor : {2, 3, 4, 5, 6, 7, 8, 9, 16, 24, 49, 100, 127, 1000, 24'576}) {
    std::vector<T> found(values.size());
    kernels.divide(dtype, reinterpret_cast<std::byte*>(found.data()), reinterpret_cast<const std::byte*>(values.data()),
                   values.size(), divisor);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T>)
        CHECK(found[i] == static_cast<T>(std::int64_t{values[i]} / divisor));
      else
        CHECK(found[i] == values[i] / static_cast<T>(divisor));
    }
  }
}

}  // namespace

TEST(division_is_exact) {
  for (const Kernels* kernels : available_kernels()) {
    check_division<float>(*kernels, DType::float32);
    check_division<double>(*kernels, DType::float64);
    check_division<std::int8_t>(*kernels, DType::int8);
    check_division<std::uint8_t>(*kernels, DType::uint8);
    check_division<std::int32_t>(*kernels, DType::int32);
    check_division<std::int64_t>(*kernels, DType::int64);
  }
}

TEST(every_dtype_and_reduction) {
  for (const Kernels* kernels : available_kernels()) {
    check_dtype<_Float16>(*kernels, DType::float16);
    check_dtype<float>(*kernels, DType::float32);
    check_dtype<double>(*kernels, DType::float64);
    check_dtype<std::int8_t>(*kernels, DType::int8);
    check_dtype<std::uint8_t>(*kernels, DType::uint8);
    check_dtype<std::int32_t>(*kernels, DType::int32);
    check_dtype<std::int64_t>(*kernels, DType::int64);
  }
}

TEST(booleans_stay_booleans) {
  const std::array<std::uint8_t, 4> a = {0, 0, 1, 1};
  const std::array<std::uint8_t, 4> b = {0, 1, 0, 1};
  const std::byte* in[2] = {reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data())};
  const auto run = [&](Op op) {
    std::array<std::uint8_t, 4> out{};
    kernels().reduce({DType::boolean, op}, reinterpret_cast<std::byte*>(out.data()), in, 2, 4);
    return out;
  };
  using Row = std::array<std::uint8_t, 4>;
  CHECK((run(Op::sum) == Row{0, 1, 1, 1}));
  CHECK((run(Op::max) == Row{0, 1, 1, 1}));
  CHECK((run(Op::product) == Row{0, 0, 0, 1}));
  CHECK((run(Op::bxor) == Row{0, 1, 1, 0}));
}

TEST(float16_converts_as_the_compiler_does) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    _Float16 native;
    std::memcpy(&native, &half, 2);
    const auto want = static_cast<float>(native);
    const float got = widen(half);
    CHECK((std::isnan(want) && std::isnan(got)) || as_bits(want) == as_bits(got));
    if (!std::isnan(want)) CHECK(narrow_to(want, Float16{}).bits == bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const float value = as_float(static_cast<std::uint32_t>(random()));
    const auto native = static_cast<_Float16>(value);
    std::uint16_t want;
    std::memcpy(&want, &native, 2);
    const std::uint16_t got = narrow_to(value, Float16{}).bits;
    CHECK(std::isnan(value) ? (got & 0x7fff) > 0x7c00 : got == want);
  }
}

TEST(bfloat16_rounds_to_nearest_even) {
  CHECK(narrow_to(1.0F, BFloat16{}).bits == 0x3f80);
  CHECK(narrow_to(as_float(0x3f808000), BFloat16{}).bits == 0x3f80);  // a tie, down to even
  CHECK(narrow_to(as_float(0x3f818000), BFloat16{}).bits == 0x3f82);  // a tie, up to even
  CHECK(narrow_to(as_float(0x3f808001), BFloat16{}).bits == 0x3f81);
  CHECK(std::isnan(widen(narrow_to(NAN, BFloat16{}))));
  CHECK(std::isinf(widen(narrow_to(INFINITY, BFloat16{}))));
}

TEST(halves_are_summed_in_float32) {
  // 2048 + 1 is not a float16: added one by one the ones would be lost.
  for (const Kernels* kernels : available_kernels()) {
    std::array<_Float16, 3> values = {2048, 1, 1};
    const std::byte* in[3];
    for (std::size_t i = 0; i < 3; ++i) in[i] = reinterpret_cast<const std::byte*>(&values[i]);
    _Float16 out = 0;
    kernels->reduce({DType::float16, Op::sum}, reinterpret_cast<std::byte*>(&out), in, 3, 1);
    CHECK(static_cast<float>(out) == 2050);
  }
}

// Any bits, specials too: the kernels must round as the conversions one by one do, wherever an element stands.
template <typename Half>
void check_rounding(const Kernels& kernels, DType dtype) {
  std::mt19937 random(5);
  std::vector<Half> a(100'003);
  std::vector<Half> b(a.size());
  std::vector<Half> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i].bits = static_cast<std::uint16_t>(i);
    b[i].bits = i % 3 == 0 ? a[i].bits ^ (random() % 256) : static_cast<std::uint16_t>(random());
  }
  const std::byte* in[2] = {reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data())};
  for (const double divisor : {1.0, 2.0, 3.0}) {
    kernels.reduce({dtype, Op::sum, divisor}, reinterpret_cast<std::byte*>(sum.data()), in, 2, a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float exact = (widen(a[i]) + widen(b[i])) / static_cast<float>(divisor);
      CHECK(std::isnan(exact) ? std::isnan(widen(sum[i])) : sum[i].bits == narrow_to(exact, Half{}).bits);
    }
  }
}

TEST(halves_are_rounded_alike_everywhere) {
  for (const Kernels* kernels : available_kernels()) {
    check_rounding<Float16>(*kernels, DType::float16);
    check_rounding<BFloat16>(*kernels, DType::bfloat16);
  }
}

TEST(a_nan_in_any_input_is_a_nan_in_the_result) {
  for (const Op op : {Op::min, Op::max, Op::sum}) {
    for (int where = 0; where < 2; ++where) {
      float values[2] = {1, 1};
      values[where] = NAN;
      const std::byte* in[2] = {reinterpret_cast<const std::byte*>(&values[0]),
                                reinterpret_cast<const std::byte*>(&values[1])};
      float out = 0;
      kernels().reduce({DType::float32, op}, reinterpret_cast<std::byte*>(&out), in, 2, 1);
      CHECK(std::isnan(out));
    }
  }
}

TEST(copies_are_exact_at_any_alignment) {
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const Kernels* kernels : available_kernels())
    for (const std::size_t bytes : {0UL, 1UL, 255UL, 256UL, 257UL, 2048UL, 2500UL})
      for (const std::size_t offset : {0UL, 1UL, 63UL}) {
        std::vector<std::byte> to(bytes + 128, kUntouched);
        kernels->copy(to.data() + offset, from.data() + 5, bytes);
        const auto begin = to.begin() + static_cast<std::ptrdiff_t>(offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
        CHECK(std::equal(begin, end, from.begin() + 5));
        CHECK(std::all_of(to.begin(), begin, [](std::byte b) { return b == kUntouched; }));
        CHECK(std::all_of(end, to.end(), [](std::byte b) { return b == kUntouched; }));
      }
}
