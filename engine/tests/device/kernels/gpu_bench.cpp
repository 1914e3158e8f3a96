// How fast the kernels are on the first GPU: bytes that they read and write in a second, beside the driver's own copy
// in the same run. What a kernel computes is compared with the CPU's before it is timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codec/codec.hpp"
#include "device/device.hpp"
#include "kernel/reduce.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::device;

namespace {

constexpr std::size_t kCount = std::size_t{16} << 20;  // float32: 64 MiB
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr int kRounds = 9;
constexpr int kLaunches = 20;  // in a round

using Bytes = std::vector<std::byte>;

class GpuMemory {
 public:
  GpuMemory(const Driver& driver, std::size_t bytes) : driver_(driver), bytes_(bytes) {
    driver_.check(driver_.allocate(&address_, bytes), "cuMemAlloc");
  }
  ~GpuMemory() { driver_.free(address_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  Address address() const { return address_; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  void put(const void* from) const {
    driver_.check(driver_.copy_to_device(address_, from, bytes_, nullptr), "cuMemcpyHtoDAsync");
    driver_.check(driver_.stream_synchronize(nullptr), "cuStreamSynchronize");
  }
  Bytes get() const {
    Bytes to(bytes_);
    driver_.check(driver_.copy_to_host(to.data(), address_, bytes_, nullptr), "cuMemcpyDtoHAsync");
    driver_.check(driver_.stream_synchronize(nullptr), "cuStreamSynchronize");
    return to;
  }

 private:
  const Driver& driver_;
  std::size_t bytes_;
  Address address_{};
};

struct Work {
  std::string name;
  std::size_t moved;  // bytes that it reads and writes
  std::function<void()> start;
  std::vector<double> seconds{};  // of a launch, by round
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Bytes random_floats() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  Bytes bytes(kBytes);
  for (std::size_t i = 0; i < kCount; ++i) {
    const float value = normal(random);
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return bytes;
}

}  // namespace

TEST(kernels_beside_a_copy) {
  const Driver::Found found = Driver::find();
  if (found.driver == nullptr) std::fprintf(stderr, "%s\n", found.why.c_str());
  CHECK(found.driver != nullptr);
  const Driver& driver = *found.driver;
  Device gpu(found.driver, 0, fatbin());
  if (!gpu.no_kernels().empty()) std::fprintf(stderr, "%s\n", gpu.no_kernels().c_str());
  CHECK(gpu.no_kernels().empty());
  const Current current(driver, gpu.context());
  const auto finish = [&] { driver.check(driver.stream_synchronize(nullptr), "cuStreamSynchronize"); };

  const Bytes values = random_floats();
  std::vector<std::unique_ptr<GpuMemory>> in;
  for (std::size_t k = 0; k < kMostInputs; ++k) in.push_back(std::make_unique<GpuMemory>(driver, kBytes));
  for (const auto& each : in) each->put(values.data());
  const GpuMemory out(driver, kBytes);
  std::vector<Work> works;
  works.push_back({"copy by the driver", 2 * kBytes, [&] {
                     driver.check(driver.copy(out.address(), in[0]->address(), kBytes, nullptr), "cuMemcpyDtoDAsync");
                   }});

  for (const std::uint32_t inputs : {2U, 4U, 8U}) {
    ReduceParameters parameters{};
    parameters.count = kCount;
    parameters.divisor = 1;
    parameters.inputs = inputs;
    parameters.outputs = 1;
    for (std::uint32_t k = 0; k < inputs; ++k) parameters.in[k] = in[k]->data();
    parameters.out[0] = out.data();
    const std::function<void()> start = [&gpu, parameters]() mutable {
      gpu.launch(reduce_launch(DType::float32, Op::sum, parameters, gpu.multiprocessors()), &parameters, nullptr);
    };
    start();
    const std::vector<const std::byte*> same(inputs, values.data());
    Bytes expected(kBytes);
    kernels().reduce({DType::float32, Op::sum}, expected.data(), same.data(), inputs, kCount);
    CHECK(out.get() == expected);
    works.push_back({"sum of " + std::to_string(inputs) + " float32", (inputs + 1) * kBytes, start});
  }

  // Each codec has its own memory, so that what is encoded is there for the rounds of decoding.
  std::vector<std::unique_ptr<GpuMemory>> kept;
  const auto keep = [&](std::size_t bytes) -> GpuMemory& {
    return *kept.emplace_back(std::make_unique<GpuMemory>(driver, bytes));
  };
  for (const Codec codec : {Codec::bf16, Codec::fp16, Codec::int8, Codec::int4, Codec::three_in_one}) {
    Bytes expected(encoded_bound(codec, DType::float32, kCount));
    expected.resize(encode(codec, DType::float32, values.data(), kCount, expected.data()));
    GpuMemory& encoded = keep(encoded_bound(codec, DType::float32, kCount));
    GpuMemory& refused = keep(sizeof(std::uint32_t));
    const std::uint32_t not_refused = 0;
    refused.put(&not_refused);
    auto* const offsets =
        reinterpret_cast<std::uint64_t*>(keep(sizeof(std::uint64_t) * (codec_offsets(codec, kCount) + 1)).data());
    EncodeParameters encoding{in[0]->data(), nullptr, encoded.data(), kCount, offsets};
    DecodeParameters decoding{encoded.data(), expected.size(), out.data(),
                              kCount,         offsets,         reinterpret_cast<std::uint32_t*>(refused.data())};
    const std::function<void()> start_encoding = [&gpu, codec, encoding]() mutable {
      for (const Launch& launch : encode_launches(codec, encoding, gpu.multiprocessors()))
        gpu.launch(launch, &encoding, nullptr);
    };
    const std::function<void()> start_decoding = [&gpu, codec, decoding]() mutable {
      for (const Launch& launch : decode_launches(codec, decoding, gpu.multiprocessors()))
        gpu.launch(launch, &decoding, nullptr);
    };
    start_encoding();
    Bytes bytes = encoded.get();
    bytes.resize(expected.size());
    CHECK(bytes == expected);
    start_decoding();
    Bytes decoded(kBytes);
    CHECK(decode(codec, DType::float32, expected, decoded.data(), kCount));
    CHECK(out.get() == decoded);
    const std::string name(kCodecNames[static_cast<std::size_t>(codec)]);
    works.push_back({name + ", encoded", kBytes + expected.size(), start_encoding});
    works.push_back({name + ", decoded", kBytes + expected.size(), start_decoding});
  }

  for (int round = 0; round < kRounds; ++round) {
    for (Work& work : works) {
      work.start();
      finish();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) work.start();
      finish();
      work.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                             kLaunches);
    }
  }
  const double copy = static_cast<double>(works[0].moved) / median(works[0].seconds);
  std::printf("%-24s %10s %10s %12s\n", "64 MiB of float32", "us", "GB/s", "of the copy");
  for (const Work& work : works) {
    const double rate = static_cast<double>(work.moved) / median(work.seconds);
    std::printf("%-24s %10.1f %10.0f %11.0f%%\n", work.name.c_str(), median(work.seconds) * 1e6, rate / 1e9,
                rate / copy * 100);
  }
}
