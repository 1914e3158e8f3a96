// What every codec promises, in every instruction set of this CPU.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codec/codec.hpp"
#include "codec/kernels.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::byte kGuard{0xA5};
constexpr std::size_t kGuarded = 64;  // bytes
const std::size_t kCounts[] = {0, 1, 2, 3, 15, 47, 48, 127, 128, 129, 1000, 4095, 4096, 4097, 12288, 12289};

std::vector<Codec> codecs() {
  std::vector<Codec> all;
  for (std::size_t i = 0; i < kCodecNames.size(); ++i)
    if (encodes(static_cast<Codec>(i), DType::float32)) all.push_back(static_cast<Codec>(i));
  return all;
}

Bytes as_bytes(const Floats& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Floats as_floats(const Bytes& bytes) {
  Floats values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Values of many magnitudes, some of them zero.
Floats random_values(std::size_t count, unsigned seed, int lowest_exponent = -40, int highest_exponent = 3) {
  std::mt19937 random(seed);
  Floats values(count);
  for (float& value : values) {
    const int exponent = lowest_exponent + static_cast<int>(random() % (highest_exponent - lowest_exponent + 1));
    value = std::ldexp(static_cast<float>(random()) * 0x1p-32F, exponent) * (random() % 2 == 0 ? 1.0F : -1.0F);
    if (random() % 16 == 0) value = 0;
  }
  return values;
}

void scatter(Floats& values, float what, unsigned seed) {
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < 1 + values.size() / 500 && !values.empty(); ++i) values[random() % values.size()] = what;
}

Bytes encoded(const CodecKernels& kernels, Codec codec, const Floats& values) {
  Bytes bytes(encoded_bound(codec, DType::float32, values.size()) + kGuarded, kGuard);
  const Bytes in = as_bytes(values);
  const std::size_t written = kernels.find(codec, DType::float32).encode(in.data(), values.size(), bytes.data());
  CHECK(written + kGuarded <= bytes.size());
  CHECK(!has_fixed_size(codec) || written + kGuarded == bytes.size());
  CHECK(std::all_of(bytes.end() - kGuarded, bytes.end(), [](std::byte b) { return b == kGuard; }));
  bytes.resize(written);
  return bytes;
}

Floats decoded(const CodecKernels& kernels, Codec codec, const Bytes& bytes, std::size_t count) {
  Bytes out(count * sizeof(float) + kGuarded, kGuard);
  CHECK(kernels.find(codec, DType::float32).decode(bytes.data(), bytes.size(), out.data(), count));
  CHECK(std::all_of(out.end() - kGuarded, out.end(), [](std::byte b) { return b == kGuard; }));
  out.resize(count * sizeof(float));
  return as_floats(out);
}

template <typename Check>
void for_each_case(const Check& check) {
  for (const CodecKernels* kernels : available_codec_kernels())
    for (const Codec codec : codecs())
      for (const std::size_t count : kCounts) check(*kernels, codec, count);
}

bool same_bits(const Floats& a, const Floats& b) { return as_bytes(a) == as_bytes(b); }

}  // namespace

TEST(names_are_parsed_and_others_refused) {
  for (std::size_t i = 0; i < kCodecNames.size(); ++i) CHECK(codec_named(kCodecNames[i]) == static_cast<Codec>(i));
  CHECK(!codec_named("zip"));
  CHECK(!codec_named(""));
}

TEST(no_codec_takes_float64_or_integers) {
  for (std::size_t i = 0; i < kCodecNames.size(); ++i)
    for (const DType dtype : {DType::float64, DType::int8, DType::int32, DType::int64, DType::boolean})
      CHECK(!encodes(static_cast<Codec>(i), dtype));
}

TEST(all_instruction_sets_give_the_same_bytes) {
  for (const Codec codec : codecs()) {
    for (const std::size_t count : kCounts) {
      Floats values = random_values(count, 1);
      scatter(values, kInfinity, 2);
      scatter(values, -100.0F, 3);
      const Bytes bytes = encoded(*available_codec_kernels().front(), codec, values);
      const Floats back = decoded(*available_codec_kernels().front(), codec, bytes, count);
      for (const CodecKernels* kernels : available_codec_kernels()) {
        CHECK(encoded(*kernels, codec, values) == bytes);
        CHECK(same_bits(decoded(*kernels, codec, bytes, count), back));
      }
    }
  }
}

TEST(parts_of_whole_blocks_make_the_bytes_of_the_whole) {
  for_each_case([](const CodecKernels& kernels, Codec codec, std::size_t count) {
    const Floats values = random_values(count, 4);
    Bytes joined;
    for (std::size_t first = 0; first < count; first += kCodecBlock) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(std::min(count, first + kCodecBlock));
      const Bytes part = encoded(kernels, codec, Floats(begin, end));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    CHECK(joined == encoded(kernels, codec, values));
  });
}

TEST(what_was_decoded_encodes_to_the_same_bytes) {
  for_each_case([](const CodecKernels& kernels, Codec codec, std::size_t count) {
    Floats values = random_values(count, 5);
    scatter(values, 1000.0F, 6);
    const Bytes bytes = encoded(kernels, codec, values);
    CHECK(encoded(kernels, codec, decoded(kernels, codec, bytes, count)) == bytes);
  });
}

TEST(adding_is_decoding_and_then_adding) {
  for_each_case([](const CodecKernels& kernels, Codec codec, std::size_t count) {
    const Bytes bytes = encoded(kernels, codec, random_values(count, 7));
    const Floats terms = decoded(kernels, codec, bytes, count);
    Floats sums = random_values(count, 8);
    Bytes out = as_bytes(sums);
    for (std::size_t i = 0; i < count; ++i) sums[i] += terms[i];
    CHECK(kernels.find(codec, DType::float32).decode_and_add(bytes.data(), bytes.size(), out.data(), count));
    CHECK(out == as_bytes(sums));
  });
}

TEST(a_residual_is_what_was_lost) {
  for_each_case([](const CodecKernels& kernels, Codec codec, std::size_t count) {
    Floats values = random_values(count, 9);
    scatter(values, kInfinity, 10);
    Floats residual = random_values(count, 11);
    Floats sums(count);
    for (std::size_t i = 0; i < count; ++i) sums[i] = values[i] + residual[i];
    const Bytes expected = encoded(kernels, codec, sums);
    const Floats back = decoded(kernels, codec, expected, count);
    for (std::size_t i = 0; i < count; ++i) residual[i] = std::isfinite(sums[i] - back[i]) ? sums[i] - back[i] : 0;

    const Bytes in = as_bytes(values);
    Bytes held = as_bytes(random_values(count, 11));
    Bytes bytes(encoded_bound(codec, DType::float32, count));
    bytes.resize(kernels.find(codec, DType::float32).encode_with_residual(in.data(), held.data(), count, bytes.data()));
    CHECK(bytes == expected);
    CHECK(held == as_bytes(residual));
  });
}

TEST(nothing_not_finite_becomes_a_number) {
  for (const float what : {kInfinity, -kInfinity, kNan}) {
    for_each_case([what](const CodecKernels& kernels, Codec codec, std::size_t count) {
      Floats values = random_values(count, 12);
      scatter(values, what, 13);
      const Floats back = decoded(kernels, codec, encoded(kernels, codec, values), count);
      for (std::size_t i = 0; i < count; ++i)
        if (!std::isfinite(values[i])) CHECK(!std::isfinite(back[i]));
    });
  }
}

TEST(a_wrong_length_is_refused) {
  for_each_case([](const CodecKernels& kernels, Codec codec, std::size_t count) {
    if (count == 0) return;
    Floats values = random_values(count, 14);
    scatter(values, kInfinity, 15);
    const Bytes bytes = encoded(kernels, codec, values);
    Bytes out(count * sizeof(float));
    const auto decode = kernels.find(codec, DType::float32).decode;
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));  // so that ASan sees its end
      CHECK(!decode(cut.data(), cut.size(), out.data(), count));
    }
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    CHECK(!decode(longer.data(), longer.size(), out.data(), count));
  });
}
