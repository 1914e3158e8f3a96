// The codecs' kernels against engine/codec: the same bytes at any size and alignment.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "codec/codec.hpp"
#include "tests/check.hpp"
#include "tests/device/kernels/buffers.hpp"

using namespace paceline;
using namespace paceline::device;
using namespace paceline::test;

namespace {

const std::size_t kCounts[] = {0, 1, 2, 3, 47, 48, 49, 127, 128, 129, 191, 1000, 4095, 4096, 4097, 12289, 40960, 41001};
constexpr Codec kCodecs[] = {Codec::bf16, Codec::fp16, Codec::int8, Codec::int4, Codec::three_in_one};

enum class Values { ordinary, some_large, many_large, some_not_finite };
constexpr Values kValues[] = {Values::ordinary, Values::some_large, Values::many_large, Values::some_not_finite};

// The values have many magnitudes, some of them zero; what is 2 or more is escaped by three_in_one.
void fill(Buffer& buffer, Values values, std::mt19937& random) {
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  for (std::size_t i = 0; i < buffer.bytes / sizeof(float); ++i) {
    float value = std::ldexp(static_cast<float>(random()) * 0x1p-32F, -static_cast<int>(random() % 36));
    if (one_in(16)) value = 0;
    if ((values == Values::some_large && one_in(700)) || (values == Values::many_large && one_in(3))) value = 1000;
    if (values == Values::some_not_finite && one_in(500)) value = one_in(2) ? INFINITY : NAN;
    if (one_in(2)) value = -value;
    std::memcpy(buffer.data() + i * sizeof(float), &value, sizeof value);
  }
}

template <typename Check>
void for_each_case(const Check& check) {
  std::mt19937 random(1);
  for (const Codec codec : kCodecs)
    for (const Values values : kValues)
      for (const std::size_t count : kCounts)
        check(codec, values, count, std::array<std::size_t, 4>{0, 0, 4, 1}[random() % 4], random);
}

void run_all(const Launches& launches, auto& parameters) {
  for (const Launch& launch : launches) run(launch, parameters);
}

// Bit for bit; but processors differ in the bits of a NaN.
bool same_floats(const Bytes& a, const Bytes& b) {
  for (std::size_t i = 0; i < a.size(); i += sizeof(float)) {
    float x;
    float y;
    std::memcpy(&x, &a[i], sizeof x);
    std::memcpy(&y, &b[i], sizeof y);
    if (std::memcmp(&x, &y, sizeof x) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return a.size() == b.size();
}

Bytes encoded_by_cpu(Codec codec, const Buffer& in, std::size_t count) {
  Bytes bytes(encoded_bound(codec, DType::float32, count));
  bytes.resize(encode(codec, DType::float32, in.data(), count, bytes.data()));
  return bytes;
}

struct Decoded {
  Bytes out;
  bool refused;
};

Decoded decoded_by_kernels(Codec codec, const Bytes& bytes, std::size_t count, std::size_t offset, const Bytes* onto) {
  // The bytes end where their memory does, so that AddressSanitizer sees a read beyond.
  KernelVector<std::byte> in(bytes.size() + offset);
  std::copy(bytes.begin(), bytes.end(), in.data() + offset);
  Buffer out(count * sizeof(float), offset);
  if (onto != nullptr) std::copy(onto->begin(), onto->end(), out.data());
  KernelVector<std::uint64_t> offsets(codec_offsets(codec, count));
  KernelVector<std::uint32_t> refused(1);
  DecodeParameters parameters{in.data() + offset, bytes.size(), out.data(), count, offsets.data(), refused.data()};
  run_all(onto == nullptr ? decode_launches(codec, parameters, kMultiprocessors)
                          : decode_and_add_launches(codec, parameters, kMultiprocessors),
          parameters);
  CHECK(out.guarded());
  return {out.copy(), refused[0] != 0};
}

}  // namespace

TEST(encoded_bytes_are_those_of_the_cpu) {
  for_each_case([](Codec codec, Values values, std::size_t count, std::size_t offset, std::mt19937& random) {
    Buffer in(count * sizeof(float), offset);
    fill(in, values, random);
    const Bytes expected = encoded_by_cpu(codec, in, count);
    Buffer out(encoded_bound(codec, DType::float32, count), offset);
    KernelVector<std::uint64_t> offsets(codec_offsets(codec, count));
    EncodeParameters parameters{in.data(), nullptr, out.data(), count, offsets.data()};
    run_all(encode_launches(codec, parameters, kMultiprocessors), parameters);
    CHECK(out.guarded() && in.guarded());
    Bytes found = out.copy();
    if (!has_fixed_size(codec)) {
      const std::size_t written = count == 0 ? 0 : offsets.back();
      CHECK(written == expected.size());
      found.resize(written);
    }
    CHECK(found == expected);
  });
}

TEST(a_residual_is_that_of_the_cpu) {
  for_each_case([](Codec codec, Values values, std::size_t count, std::size_t offset, std::mt19937& random) {
    Buffer in(count * sizeof(float), offset);
    Buffer residual(count * sizeof(float), offset);
    fill(in, values, random);
    fill(residual, Values::ordinary, random);
    Bytes left = residual.copy();
    Bytes expected(encoded_bound(codec, DType::float32, count));
    expected.resize(encode_with_residual(codec, in.data(), left.data(), count, expected.data()));

    Buffer out(encoded_bound(codec, DType::float32, count), offset);
    KernelVector<std::uint64_t> offsets(codec_offsets(codec, count));
    EncodeParameters parameters{in.data(), residual.data(), out.data(), count, offsets.data()};
    run_all(encode_launches(codec, parameters, kMultiprocessors), parameters);
    CHECK(std::equal(expected.begin(), expected.end(), out.data()));
    CHECK(residual.copy() == left);
    CHECK(out.guarded() && residual.guarded());
  });
}

TEST(decoded_elements_are_those_of_the_cpu) {
  for_each_case([](Codec codec, Values values, std::size_t count, std::size_t offset, std::mt19937& random) {
    Buffer in(count * sizeof(float), 0);
    Buffer before(count * sizeof(float), 0);
    fill(in, values, random);
    fill(before, Values::ordinary, random);
    const Bytes bytes = encoded_by_cpu(codec, in, count);
    Bytes expected(count * sizeof(float));
    CHECK(decode(codec, DType::float32, bytes, expected.data(), count));
    const Decoded decoded = decoded_by_kernels(codec, bytes, count, offset, nullptr);
    CHECK(!decoded.refused && same_floats(decoded.out, expected));

    Bytes sums = before.copy();
    CHECK(decode_and_add(codec, DType::float32, bytes, sums.data(), count));
    const Bytes onto = before.copy();
    const Decoded added = decoded_by_kernels(codec, bytes, count, offset, &onto);
    CHECK(!added.refused && same_floats(added.out, sums));
  });
}

// Whatever lies there, the kernels stay within it, and refuse what the CPU refuses.
TEST(garbled_blocks_are_refused_as_by_the_cpu) {
  std::mt19937 random(2);
  unsigned refusals = 0;
  for (unsigned trial = 0; trial < 300; ++trial) {
    const std::size_t count = 1 + random() % 20'000;
    Buffer in(count * sizeof(float), 0);
    fill(in, kValues[trial % std::size(kValues)], random);
    Bytes bytes = encoded_by_cpu(Codec::three_in_one, in, count);
    if (trial % 4 == 0) {
      bytes.resize(random() % (bytes.size() + 1));
    } else if (trial % 4 == 1) {
      bytes.push_back(std::byte{0});
    } else {
      for (unsigned change = 0; change < 1 + random() % 3; ++change) {
        const std::size_t block = random() % ((count + kCodecBlock - 1) / kCodecBlock);
        const std::size_t near_header = std::min(block * 5468 + random() % 8, bytes.size() - 1);
        bytes[random() % 2 == 0 ? near_header : random() % bytes.size()] = static_cast<std::byte>(random());
      }
    }
    Bytes expected(count * sizeof(float));
    const bool taken = decode(Codec::three_in_one, DType::float32, bytes, expected.data(), count);
    const Decoded found = decoded_by_kernels(Codec::three_in_one, bytes, count, 0, nullptr);
    CHECK(found.refused == !taken);
    if (taken) CHECK(same_floats(found.out, expected));
    refusals += taken ? 0 : 1;
  }
  CHECK(refusals > 100 && refusals < 300);
}

TEST(a_codec_without_kernels_has_no_launches) {
  CHECK(encode_launches(Codec::lossless, {nullptr, nullptr, nullptr, 1000, nullptr}, 1).count == 0);
  CHECK(decode_launches(Codec::none, {nullptr, 0, nullptr, 1000, nullptr, nullptr}, 1).count == 0);
}
