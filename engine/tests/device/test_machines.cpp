// Ranks on several machines whose devices reach each other on each: they combine on the device what leaves the machine.
#include <csignal>
#include <random>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"
#include "tests/machine_plans.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Path;

namespace {

using Values = std::vector<float>;

constexpr std::size_t kChunkOfAll = calibration::kStagedChunk / sizeof(float);
constexpr std::size_t kShort = 150'007;  // elements, more than go in one shot
constexpr std::size_t kLong = sweep<std::size_t>(2 * kChunkOfAll + 1001, kChunkOfAll + 1001, kChunkOfAll + 1001);

const std::vector<std::vector<int>> kMachines =
    sweep<std::vector<std::vector<int>>>({{0, 0, 1, 1}, {0, 0, 1, 1, 1}, {0, 1, 1}, {0, 0, 1, 2, 2}, {1, 0, 1, 0}},
                                         {{0, 0, 1, 1, 1}, {0, 1, 1}}, {{0, 0, 1, 1}, {0, 1, 1}});

Job job_of(const std::vector<int>& machines, const Plan& plan) {
  return {.size = static_cast<int>(machines.size()), .machines = machines, .plans = {{"all_reduce", {plan}}}};
}

Values gradients_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal;
  return filled<float>(count, [&](std::size_t) { return normal(random); });
}

std::byte* raw(Values& values) { return reinterpret_cast<std::byte*>(values.data()); }

template <typename T>
void over(DeviceRank& self, const DeviceValues<T>& values, DType dtype, Op op, double factor = 1,
          Path path = Path::by_machine) {
  Reduction call = values.call(dtype, op);
  call.factor = factor;
  all_reduce(self, call)->order_before(nullptr);
  finish(self);
  CHECK(self.on_device().last().path == path);
}

// Small numbers of quarters, so that all sums are exact in whatever order.
Values quarters(int rank, std::size_t count) {
  return filled<float>(count,
                       [&](std::size_t i) { return static_cast<float>((i * 7 + std::size_t(rank) * 13) % 97) / 4; });
}

void gives_the_bits_of_the_host(DeviceRank& self, std::size_t count, Op op, Kind kind = Kind::device) {
  const double factor = op == Op::premul_sum ? self.rank() + 0.5 : 1;
  Values expected = quarters(self.rank(), count);
  const DeviceValues<float> values(self, count, kind);
  values.put(expected);
  over(self, values, DType::float32, op, factor);
  all_reduce(self.engine(), *self.group(), raw(expected), count, DType::float32, op, factor, Mode::blocking);
  CHECK(same_bits(values.get(), expected));
}

template <typename T>
void adds_up(DeviceRank& self, DType dtype) {
  const DeviceValues<T> values(self, calibration::kDeviceOneShot / sizeof(T) + 77);
  values.put(filled<T>(values.count(), [&](std::size_t i) { return i % 10 + std::size_t(self.rank()); }));
  over(self, values, dtype, Op::sum);
  const auto ranks = static_cast<std::size_t>(self.size());
  CHECK(values.get() ==
        filled<T>(values.count(), [&](std::size_t i) { return ranks * (i % 10) + ranks * (ranks - 1) / 2; }));
}

Error failed(DeviceRank& self, const DeviceValues<float>& values, std::size_t count) {
  const Reduction call{.data = values.address(), .count = count, .dtype = DType::float32};
  return failure_of([&] { all_reduce(self, call)->wait(std::chrono::seconds(30)); });
}

}  // namespace

TEST(every_shape_of_machines) {
  for (const auto& machines : kMachines)
    for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{200} << 10})
      run(job_of(machines, machine_plan(machines, true, chunk_bytes)), [](DeviceRank& self) {
        for (const Op op : {Op::sum, Op::avg, Op::premul_sum, Op::max}) gives_the_bits_of_the_host(self, kShort, op);
        gives_the_bits_of_the_host(self, kLong, Op::sum);
      });
}

TEST(other_dtypes) {
  const std::vector<int> machines{0, 0, 1, 1, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    adds_up<double>(self, DType::float64);
    adds_up<std::int32_t>(self, DType::int32);
    adds_up<std::uint8_t>(self, DType::uint8);
  });
}

TEST(memory_that_others_cannot_map) {
  const std::vector<int> machines{0, 1, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    for (const Kind kind : unmapped_kinds()) {
      gives_the_bits_of_the_host(self, kShort, Op::sum, kind);
      gives_the_bits_of_the_host(self, kShort, Op::premul_sum, kind);
    }
  });
}

// Small calls, other collectives and other plans go as they would without.
TEST(what_does_not_go_so) {
  const std::vector<int> machines{0, 0, 1, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    const DeviceValues<float> values(self, kShort);
    values.fill(1);
    const DeviceValues<float> some(self, calibration::kDeviceOneShot / sizeof(float));
    some.fill(1);
    over(self, some, DType::float32, Op::sum, 1, Path::staged);
    device::reduce(self.on_device(), values.address(), values.address(), kShort, DType::float32, Op::sum, 1, 0, nullptr)
        ->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::staged && some.get()[9] == 4);
  });
  run(job_of(machines, ring_plan(4)), [](DeviceRank& self) {
    const DeviceValues<float> values(self, kShort);
    values.fill(1);
    over(self, values, DType::float32, Op::sum, 1, Path::staged);
    CHECK(values.get()[kShort - 1] == 4);
  });
}

TEST(machines_without_kernels) {
  const std::vector<int> machines{0, 0, 1, 1};
  Job job = job_of(machines, machine_plan(machines));
  job.kernels = false;
  run(job, [](DeviceRank& self) {
    const DeviceValues<float> values(self, kShort);
    values.fill(1);
    over(self, values, DType::float32, Op::sum, 1, Path::staged);
    const std::string why = self.on_device().last().why;
    CHECK(contains(why, "the ranks are on several machines, and ") && contains(why, "rank 0: this build of Paceline"));
  });
}

// Each element is encoded where it leaves the machine. What is lost is kept by the rank that encoded it, which is not
// the same on the host, but on each machine it is the same.
void encodes_what_leaves(DeviceRank& self, std::size_t count) {
  const DeviceValues<float> values(self, count);
  const DeviceValues<float> residual(self, count);
  residual.fill(0);
  Values lost(count, 0);
  for (int call = 0; call < 2; ++call) {
    Values expected = gradients_of(self.rank() + 10 * call, count);
    values.put(expected);
    device::all_reduce(self.on_device(), values.address(), count, DType::float32, Op::avg, 1, nullptr,
                       {Codec::bf16, device::pointer(residual.address())})
        ->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::by_machine);
    all_reduce(self.engine(), *self.group(), raw(expected), count, DType::float32, Op::avg, 1, Mode::blocking,
               {Codec::bf16, raw(lost)});
    CHECK(same_bits(values.get(), expected));
    Values all_lost = lost;
    Values all_kept = residual.get();
    for (Values* const one : {&all_lost, &all_kept})
      all_reduce(self.engine(), *self.group(), raw(*one), count, DType::float32, Op::sum, 1, Mode::blocking);
    CHECK(all_kept == all_lost);
    CHECK(std::ranges::any_of(all_kept, [](float each) { return each != 0; }));
  }
}

TEST(encoded_between_machines) {
  for (const auto& machines : {std::vector{0, 0, 1, 1}, std::vector{0, 1, 1}})
    run(job_of(machines, machine_plan(machines, false)), [](DeviceRank& self) {
      // A chunk leaves room for what is lost; no chunk is too small to be encoded.
      for (const std::size_t count : {kShort, kChunkOfAll}) encodes_what_leaves(self, count);
    });
}

TEST(tensors_that_go_as_one_between_machines) {
  const std::vector<int> machines{0, 0, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    const DeviceValues<float> one(self, kShort);
    const DeviceValues<float> other(self, 1000);
    const DeviceValues<float> memory(self, 2 * kShort);
    one.fill(1);
    other.fill(2);
    const CollectiveCall packed{.collective = Collective::all_reduce,
                                .target = device::pointer(memory.address()),
                                .count = kShort + 1500,
                                .dtype = DType::float32};
    device::start_packed(self.on_device(), packed, {{one.address(), kShort}, {0, 500}, {other.address(), 1000}},
                         nullptr)
        ->order_before(nullptr);
    finish(self);
    CHECK(self.on_device().last().path == Path::by_machine);
    CHECK(one.get() == Values(kShort, 3) && other.get() == Values(1000, 6));
  });
}

// A rank hands over its calls although the last one comes later, and words serve again and again.
TEST(calls_do_not_wait_for_other_ranks) {
  const std::vector<int> machines{0, 0, 1, 1};
  const Told told;
  run(job_of(machines, machine_plan(machines)), [&](DeviceRank& self) {
    const DeviceValues<std::int64_t> values(self, calibration::kDeviceOneShot / sizeof(std::int64_t) + 1);
    values.fill(self.rank());
    self.on_device();
    if (self.rank() == 3) told.await(3);
    const auto first = all_reduce(self, values.call(DType::int64));
    if (self.rank() != 3) {
      CHECK(!first->done());
      told.tell();
    }
    for (unsigned again = 0; again < sweep(device::kCalls, 5U, 5U); ++again)
      all_reduce(self, values.call(DType::int64, Op::max));
    all_reduce(self, values.call(DType::int64, Op::max))->order_before(nullptr);
    finish(self);
    CHECK(values.get() == std::vector<std::int64_t>(values.count(), 6));
  });
}

TEST(machines_that_disagree) {
  const std::vector<int> machines{0, 0, 1, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    const DeviceValues<float> values(self, kShort + 1);
    values.fill(1);
    const Error error = failed(self, values, kShort + (self.rank() == 1 ? 1 : 0));
    finish(self);
    CHECK(error.kind == ErrorKind::mismatch && contains(error.message, "150007") && contains(error.message, "150008"));
  });
}

// What leaves this machine waits for the device of another rank of it, whose stream does not come so far in time.
TEST(a_device_of_the_same_machine_that_is_late) {
  const std::vector<int> machines{0, 0, 1, 1};
  run(job_of(machines, machine_plan(machines)), [](DeviceRank& self) {
    self.on_device();
    self.meet();
    if (self.rank() == 0) self.engine().set_timeout(*self.group(), std::chrono::seconds(1));
    const DeviceValues<float> values(self, kShort);
    values.fill(1);
    TestStream stream(self);
    if (self.rank() == 1) stream.hold();
    const Error error = failure_of(
        [&] { all_reduce(self, values.call(DType::float32, Op::sum, stream.get()))->wait(std::chrono::seconds(30)); });
    CHECK(error.kind == ErrorKind::timeout && contains(error.message, "rank 1"));
  });
}

// On its own machine and on the other one.
TEST(a_rank_of_a_machine_that_is_killed) {
  const std::vector<int> machines{0, 0, 1, 1};
  for (const int victim : {0, 3}) {
    Job job = job_of(machines, machine_plan(machines));
    job.leaves = victim;
    run(job, [victim](DeviceRank& self) {
      const DeviceValues<float> values(self, kLong);
      values.fill(1);
      self.on_device();
      self.meet();
      if (self.rank() == victim) ::raise(SIGKILL);
      const Error error = failed(self, values, kLong);
      finish(self);
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank " + std::to_string(victim)));
    });
  }
}
