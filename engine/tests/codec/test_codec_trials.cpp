// Random blocks through every codec: bounds are kept, and no bytes from a peer do harm.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <vector>

#include "codec/codec.hpp"
#include "codec/kernels.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kScaleGroup = 128;  // elements, of int8 and int4

struct Trial {
  Codec codec;
  DType dtype;
};

const Trial kTrials[] = {{Codec::none, DType::float32},     {Codec::bf16, DType::float32},
                         {Codec::fp16, DType::float32},     {Codec::three_in_one, DType::float32},
                         {Codec::int8, DType::float32},     {Codec::int4, DType::float32},
                         {Codec::lossless, DType::float32}, {Codec::lossless, DType::bfloat16}};

class Trials {
 public:
  explicit Trials(std::uint64_t seed) : random_(seed) {}

  void run(const Trial& trial, std::size_t blocks) {
    for (std::size_t i = 0; i < blocks; ++i) once(trial);
  }

 private:
  std::mt19937_64 random_;
  std::vector<const CodecKernels*> kernels_ = available_codec_kernels();

  std::size_t below(std::size_t limit) { return random_() % limit; }

  // A block, most often a short one, and rarely a little more than one.
  std::size_t some_elements() {
    const std::size_t kind = below(64);
    if (kind == 0) return 1 + below(kCodecBlock + 200);
    return 1 + below(kind < 8 ? 400 : 100);
  }

  std::uint32_t element(std::size_t kind, float scale) {
    const auto bits = static_cast<std::uint32_t>(random_());
    if (kind == 0 || below(4000) == 0) return bits;  // NaN, infinities and subnormal numbers too
    const float value = scale * static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F *
                        (kind == 1 ? static_cast<float>(1U << below(24)) * 0x1p-20F : 1);
    std::uint32_t result;
    std::memcpy(&result, &value, sizeof result);
    return kind == 2 && below(2) == 0 ? 0 : result;
  }

  Bytes some_block(DType dtype, std::size_t elements) {
    const std::size_t kind = below(5);
    const float scale = std::ldexp(1.0F, static_cast<int>(below(60)) - 50);
    Bytes bytes(elements * size_of(dtype));
    for (std::size_t i = 0; i < elements; ++i) {
      const std::uint32_t bits = element(kind, scale) >> (dtype == DType::bfloat16 ? 16 : 0);
      std::memcpy(bytes.data() + i * size_of(dtype), &bits, size_of(dtype));
    }
    return bytes;
  }

  void once(const Trial& trial) {
    const CodecFunctions with = kernels_[below(kernels_.size())]->find(trial.codec, trial.dtype);
    const std::size_t elements = some_elements();
    const Bytes in = some_block(trial.dtype, elements);
    Bytes encoded(encoded_bound(trial.codec, trial.dtype, elements));  // not one byte more: sanitizers would see it
    const std::size_t written = with.encode(in.data(), elements, encoded.data());
    CHECK(written <= encoded.size());
    CHECK(!has_fixed_size(trial.codec) || written == encoded.size());
    encoded.resize(written);

    Bytes out(in.size());
    CHECK(with.decode(encoded.data(), encoded.size(), out.data(), elements));
    if (trial.codec == Codec::none || trial.codec == Codec::lossless)
      CHECK(out == in);
    else
      check_errors(trial.codec, in, out, elements);

    harm(encoded);
    const Bytes exact(encoded.begin(), encoded.end());
    if (below(2) == 0)
      with.decode(exact.data(), exact.size(), out.data(), elements);
    else
      with.decode_and_add(exact.data(), exact.size(), out.data(), elements);
  }

  void harm(Bytes& bytes) {
    switch (below(4)) {
      case 0: bytes.resize(below(bytes.size() + 1)); break;
      case 1: bytes.resize(bytes.size() + 1 + below(40)); break;
      case 2:
        for (std::byte& each : bytes) each = static_cast<std::byte>(random_());
        break;
      default:
        for (std::size_t flips = 1 + below(8); flips > 0 && !bytes.empty(); --flips)
          bytes[below(std::min<std::size_t>(bytes.size(), below(2) == 0 ? 4096 : 600))] ^=
              static_cast<std::byte>(1U << below(8));
    }
  }

  static float at(const Bytes& bytes, std::size_t index) {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }

  static void check_errors(Codec codec, const Bytes& in, const Bytes& out, std::size_t elements) {
    for (std::size_t first = 0; first < elements; first += kScaleGroup) {
      const std::size_t n = std::min(kScaleGroup, elements - first);
      double most = 0;
      for (std::size_t i = first; i < first + n; ++i)
        most = std::isfinite(at(in, i)) ? std::max(most, std::fabs(double{at(in, i)})) : INFINITY;
      for (std::size_t i = first; i < first + n; ++i) CHECK(is_near(codec, at(in, i), at(out, i), most));
    }
  }

  // `most`: the largest magnitude in the element's group, infinite if one of them is not finite.
  static bool is_near(Codec codec, double value, double got, double most) {
    const double error = std::fabs(got - value);
    const bool grouped = codec == Codec::int8 || codec == Codec::int4;
    if (grouped && !std::isfinite(most)) return std::isnan(got);
    if (std::isnan(value)) return std::isnan(got);
    if (std::isinf(value)) return got == value;
    const double magnitude = std::fabs(value);
    switch (codec) {
      case Codec::bf16: return error <= magnitude * 0x1p-8 + 0x1p-134 || magnitude >= 0x1.ffp127;
      case Codec::fp16: return error <= magnitude * 0x1p-11 + 0x1p-25 || (magnitude >= 65520 && std::isinf(got));
      case Codec::three_in_one: return error <= std::max(magnitude * 0x1p-6, 33 * 0x1p-21);
      case Codec::int8: return error <= most / 127 * (0.5 + 0x1p-8) + 0x1p-119;
      case Codec::int4: return error <= most / 7 * (0.5 + 0x1p-12) + 0x1p-119;
      default: return false;
    }
  }
};

// Each codec in a thread of its own.
void run_all(std::size_t blocks) {
  std::vector<std::future<void>> running;
  for (const Trial& trial : kTrials)
    running.push_back(std::async(std::launch::async, [&trial, blocks] { Trials(blocks).run(trial, blocks); }));
  for (auto& each : running) each.get();
}

}  // namespace

TEST(thousands_of_random_blocks) { run_all(5'000); }
LONG_TEST(a_million_random_blocks) { run_all(1'000'000); }
