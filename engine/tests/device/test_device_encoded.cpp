// Collectives of device memory that are encoded between machines. They give the bits of the engine's own on the host,
// and so does what each rank keeps of the loss.
#include <csignal>
#include <random>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Path;

namespace {

using Values = std::vector<float>;

const std::vector<Codec> kCodecs = sweep<std::vector<Codec>>(
    {Codec::bf16, Codec::fp16, Codec::three_in_one, Codec::int8, Codec::int4, Codec::lossless},
    {Codec::three_in_one, Codec::int8}, {Codec::int8});
// Elements of a chunk that has room for what is lost.
constexpr std::size_t kChunk = calibration::kStagedChunk / sizeof(float) / 2;
constexpr std::size_t kOne = 40'007;
// The last chunk is too small to be encoded.
constexpr std::size_t kSeveral = sweep<std::size_t>(2 * kChunk + 1001, kChunk + 1001, kChunk + 1001);

constexpr std::size_t kRandom = 9973;  // elements that are drawn; they come again and again

Values gradients(int rank, int call, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 10 * call + 1));
  std::normal_distribution<float> normal;
  Values values(count);
  for (std::size_t i = 0; i < std::min(count, kRandom); ++i) values[i] = normal(random);
  repeat(std::span(values), kRandom);
  return values;
}

std::byte* at(Values& values, std::size_t first = 0) { return reinterpret_cast<std::byte*>(values.data() + first); }

void over(DeviceRank& self, const device::Handed& handed) {
  handed->order_before(nullptr);
  finish(self);
  CHECK(self.on_device().last().path == Path::staged);
}

// What a rank lost stays on the device, from one call to the next.
void all_reduces(DeviceRank& self, Codec codec, std::size_t count, Op op) {
  const DeviceValues<float> data(self, count);
  const DeviceValues<float> residual(self, count);
  residual.fill(0);
  Values lost(count, 0);
  const double factor = op == Op::premul_sum ? self.rank() + 0.5 : 1;
  for (int call = 0; call < 2; ++call) {
    Values expected = gradients(self.rank(), call, count);
    data.put(expected);
    over(self, device::all_reduce(self.on_device(), data.address(), count, DType::float32, op, factor, nullptr,
                                  {codec, device::pointer(residual.address())}));
    for (std::size_t first = 0; first < count; first += kChunk)
      all_reduce(self.engine(), *self.group(), at(expected, first), std::min(kChunk, count - first), DType::float32, op,
                 factor, Mode::blocking, {codec, at(lost, first)});
    CHECK(same_bits(data.get(), expected));
    CHECK(same_bits(residual.get(), lost));
  }
  if (codec == Codec::lossless) return;
  // And they are not those of a call that is not encoded.
  Values plain = gradients(self.rank(), 0, count);
  data.put(plain);
  over(self, device::all_reduce(self.on_device(), data.address(), count, DType::float32, op, factor, nullptr, {codec}));
  all_reduce(self.engine(), *self.group(), at(plain), count, DType::float32, op, factor, Mode::blocking, {Codec::none});
  CHECK(!same_bits(data.get(), plain));
}

void reduce_scatters(DeviceRank& self, Codec codec, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(self.size());
  const DeviceValues<float> input(self, ranks * count);
  const DeviceValues<float> output(self, count);
  const DeviceValues<float> residual(self, ranks * count);
  Values lost(ranks * count, 0);
  residual.put(lost);
  for (int call = 0; call < 2; ++call) {
    Values given = gradients(self.rank(), call, ranks * count);
    input.put(given);
    over(self, device::reduce_scatter(self.on_device(), input.address(), output.address(), count, DType::float32,
                                      Op::avg, 1, nullptr, {codec, device::pointer(residual.address())}));
    Values expected(count);
    reduce_scatter(self.engine(), *self.group(), at(given), at(expected), count, DType::float32, Op::avg, 1,
                   Mode::blocking, {codec, at(lost)});
    CHECK(same_bits(output.get(), expected));
    CHECK(same_bits(input.get(), given));
    CHECK(same_bits(residual.get(), lost));
  }
}

// Every rank ends with what the others decode, also of what it has brought along itself.
void moves(DeviceRank& self, Codec codec, std::size_t count) {
  for (int root = 0; root < self.size(); ++root) {
    Values expected = gradients(self.rank(), root, count);
    const DeviceValues<float> data(self, count);
    data.put(expected);
    over(self, device::broadcast(self.on_device(), data.address(), count, DType::float32, root, nullptr, {codec}));
    broadcast(self.engine(), *self.group(), at(expected), count, DType::float32, root, Mode::blocking, {codec});
    CHECK(same_bits(data.get(), expected));
  }
  const auto ranks = static_cast<std::size_t>(self.size());
  Values given = gradients(self.rank(), 0, count);
  const DeviceValues<float> input(self, count);
  const DeviceValues<float> output(self, ranks * count);
  input.put(given);
  over(self, device::all_gather(self.on_device(), input.address(), output.address(), count, DType::float32, nullptr,
                                {codec}));
  Values expected(ranks * count);
  all_gather(self.engine(), *self.group(), at(given), at(expected), count, DType::float32, Mode::blocking, {codec});
  CHECK(same_bits(output.get(), expected));
}

void every_codec(const std::vector<int>& machines) {
  run({.size = static_cast<int>(machines.size()), .machines = machines}, [](DeviceRank& self) {
    for (const Codec codec : kCodecs) {
      all_reduces(self, codec, kOne, Op::sum);
      reduce_scatters(self, codec, kOne);
      moves(self, codec, kOne);
    }
    all_reduces(self, Codec::int8, kOne, Op::premul_sum);
    all_reduces(self, Codec::int8, kSeveral, Op::avg);
  });
}

Error failed(DeviceRank& self, const DeviceValues<float>& data, DType dtype, Op op, const Encoding& wanted) {
  return failure_of([&] {
    device::all_reduce(self.on_device(), data.address(), data.count(), dtype, op, 1, nullptr, wanted)
        ->wait(std::chrono::seconds(30));
  });
}

}  // namespace

TEST(two_machines) { every_codec({0, 1}); }
TEST(machines_of_one_and_of_two_ranks) { every_codec({0, 1, 1}); }

// A rank may keep what it loses although another one does not.
TEST(only_one_rank_keeps_what_is_lost) {
  run({.size = 2, .machines = {0, 1}}, [](DeviceRank& self) {
    const DeviceValues<float> data(self, kSeveral);
    const DeviceValues<float> residual(self, kSeveral);
    residual.fill(0);
    data.put(gradients(self.rank(), 0, kSeveral));
    std::byte* const kept = self.rank() == 0 ? device::pointer(residual.address()) : nullptr;
    over(self, device::all_reduce(self.on_device(), data.address(), kSeveral, DType::float32, Op::sum, 1, nullptr,
                                  {Codec::bf16, kept}));
    const auto lost = residual.get();
    CHECK(std::ranges::any_of(lost, [](float each) { return each != 0; }) == (self.rank() == 0));
  });
}

// What the group has without being asked goes for its device too, from its own size on.
TEST(the_codec_of_a_group) {
  run({.size = 2, .machines = {0, 1}}, [](DeviceRank& self) {
    self.on_device();
    self.engine().set_codec(*self.group(), Codec::bf16, std::size_t{1} << 20);
    for (const std::size_t count : {std::size_t{100'000}, std::size_t{300'000}}) {
      const DeviceValues<float> data(self, count);
      data.fill(1 + 0x1p-20F);
      over(self, device::all_reduce(self.on_device(), data.address(), count, DType::float32, Op::sum, 1, nullptr));
      CHECK(data.get()[7] == (count == 300'000 ? 2 : 2 + 0x1p-19F));
      data.fill(1 + 0x1p-20F);
      over(self, device::all_reduce(self.on_device(), data.address(), count, DType::float32, Op::sum, 1, nullptr,
                                    {Codec::none}));
      CHECK(data.get()[7] == 2 + 0x1p-19F);
    }
  });
}

TEST(nothing_is_encoded_on_one_machine) {
  run({.size = 2}, [](DeviceRank& self) {
    const DeviceValues<float> data(self, 300'000);
    const DeviceValues<float> residual(self, 300'000);
    residual.fill(3);
    data.fill(1 + 0x1p-20F);
    device::all_reduce(self.on_device(), data.address(), data.count(), DType::float32, Op::sum, 1, nullptr,
                       {Codec::int4, device::pointer(residual.address())})
        ->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::two_shot);
    CHECK(data.get()[299'999] == 2 + 0x1p-19F && residual.get()[0] == 3);
  });
}

TEST(what_cannot_be_encoded) {
  run({.size = 2, .machines = {0, 1}}, [](DeviceRank& self) {
    const DeviceValues<float> data(self, kOne);
    data.fill(1);
    Values here(kOne, 0);
    Error error = failed(self, data, DType::int32, Op::sum, {Codec::int8});
    CHECK(error.kind == ErrorKind::invalid && contains(error.message, "int8 encodes sums and means of float32, not"));
    error = failed(self, data, DType::float32, Op::max, {Codec::int8});
    CHECK(error.kind == ErrorKind::invalid && contains(error.message, "not MAX of float32"));
    error = failed(self, data, DType::bfloat16, Op::sum, {Codec::lossless, device::pointer(data.address())});
    CHECK(error.kind == ErrorKind::invalid && contains(error.message, "a residual keeps what is lost of float32, not"));
    error = failed(self, data, DType::float32, Op::sum, {Codec::int8, at(here)});
    CHECK(error.kind == ErrorKind::invalid && contains(error.message, "is no memory of device 0"));
    // No rank has heard of that, and all go on.
    CHECK(!failed(self, data, DType::float32, Op::sum, {Codec::int8}));
    error = failed(self, data, DType::float32, Op::sum, {self.rank() == 0 ? Codec::int8 : Codec::bf16});
    CHECK(error.kind == ErrorKind::mismatch && contains(error.message, "SUM as int8"));
    CHECK(contains(error.message, "SUM as bf16"));
    finish(self);
  });
}

// What is lost on its way may be anything then, but nothing waits for ever.
TEST(a_rank_that_is_killed) {
  run({.size = 3, .leaves = 2, .machines = {0, 1, 1}}, [](DeviceRank& self) {
    const DeviceValues<float> data(self, kSeveral);
    const DeviceValues<float> residual(self, kSeveral);
    data.fill(1);
    residual.fill(0);
    self.on_device();
    self.meet();
    if (self.rank() == 2) ::raise(SIGKILL);
    const Error error = failed(self, data, DType::float32, Op::sum, {Codec::int8, device::pointer(residual.address())});
    finish(self);
    CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
  });
}
