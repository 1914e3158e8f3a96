// Buffers cut into chunks, a few of which are under way at once: exact for any size, dtype, reduction and link, and
// still said who is missing.
#include <barrier>

#include "kernel/reduce.hpp"
#include "message/message_operation.hpp"
#include "tests/plans.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

Wire mixed(int i, int j) { return (i < 2) == (j < 2) ? Wire::shm : Wire::tcp; }
Wire staged(int i, int j) { return (i < 2) == (j < 2) ? Wire::staged : Wire::tcp; }

// Small whole numbers are exact in every type, and so are their sums and products.
void put(std::byte* to, DType dtype, std::size_t at, int value) {
  const auto store = [&](auto number) { std::memcpy(to + at * sizeof number, &number, sizeof number); };
  constexpr std::uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200};
  constexpr std::uint16_t brains[] = {0, 0x3f80, 0x4000, 0x4040};
  switch (dtype) {
    case DType::float16: return store(halves[value]);
    case DType::bfloat16: return store(brains[value]);
    case DType::float32: return store(static_cast<float>(value));
    case DType::float64: return store(static_cast<double>(value));
    case DType::int32: return store(static_cast<std::int32_t>(value));
    case DType::int64: return store(static_cast<std::int64_t>(value));
    case DType::int8:
    case DType::uint8: return store(static_cast<std::uint8_t>(value));
    case DType::boolean: return store(static_cast<std::uint8_t>(value % 2));
    default: CHECK(false);
  }
}

std::vector<std::byte> numbers(DType dtype, std::size_t count, int rank) {
  std::vector<std::byte> data(count * size_of(dtype));
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i)
    put(data.data(), dtype, i, 1 + static_cast<int>((i + i * i / 7 + static_cast<std::size_t>(rank) * 5) % 3));
  repeat(std::span(data), kPeriod * size_of(dtype));
  return data;
}

std::vector<std::byte> expected(DType dtype, Op op, double factor, std::size_t count, int size) {
  const std::size_t made = std::min(count, kPeriod);
  std::vector<std::vector<std::byte>> all;
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < size; ++rank) {
    auto& mine = all.emplace_back(numbers(dtype, made, rank));
    if (op == Op::premul_sum) kernels().scale(dtype, mine.data(), mine.data(), made, factor);
    inputs.push_back(mine.data());
  }
  std::vector<std::byte> out(count * size_of(dtype));
  const Fold fold{dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op, op == Op::avg ? double(size) : 1.0};
  kernels().reduce(fold, out.data(), inputs.data(), inputs.size(), made);
  repeat(std::span(out), kPeriod * size_of(dtype));
  return out;
}

void check_all_reduce(Rank& r, DType dtype, Op op, std::size_t count) {
  constexpr double kFactor = 2;
  auto data = numbers(dtype, count, r.rank);
  all_reduce(*r.engine, *r.group, data.data(), count, dtype, op, kFactor, Mode::blocking);
  CHECK(same_bits(data, expected(dtype, op, kFactor, count, r.size)));
}

void check_broadcast(Rank& r, std::size_t count) {
  for (int root = 0; root < r.size; ++root) {
    auto data = numbers(DType::int32, count, r.rank);
    broadcast(*r.engine, *r.group, data.data(), count, DType::int32, root, Mode::blocking);
    CHECK(same_bits(data, numbers(DType::int32, count, root)));
  }
}

void check_reduce(Rank& r, DType dtype, Op op, std::size_t count) {
  constexpr double kFactor = 2;
  for (int root = 0; root < r.size; ++root) {
    const auto given = numbers(dtype, count, r.rank);
    auto data = given;
    reduce(*r.engine, *r.group, data.data(), count, dtype, op, kFactor, root, Mode::blocking);
    CHECK(same_bits(data, r.rank == root ? expected(dtype, op, kFactor, count, r.size) : given));
  }
}

void check_blocks(Rank& r, DType dtype, Op op, std::size_t count) {
  constexpr double kFactor = 2;
  const std::size_t all = count * static_cast<std::size_t>(r.size);
  const std::size_t block = count * size_of(dtype);
  const std::size_t own = block * static_cast<std::size_t>(r.rank);
  auto data = numbers(dtype, all, r.rank);
  const auto given = data;
  std::vector<std::byte> part(block);
  reduce_scatter(*r.engine, *r.group, data.data(), part.data(), count, dtype, op, kFactor, Mode::blocking);
  CHECK(same_bits(data, given));
  const auto whole = expected(dtype, op, kFactor, all, r.size);
  CHECK(same_bits(part, std::span(whole).subspan(own, block)));
  all_gather(*r.engine, *r.group, part.data(), data.data(), count, dtype, Mode::blocking);
  CHECK(same_bits(data, whole));
  // In place.
  data = given;
  std::byte* const mine = data.data() + own;
  reduce_scatter(*r.engine, *r.group, data.data(), mine, count, dtype, op, kFactor, Mode::blocking);
  all_gather(*r.engine, *r.group, mine, data.data(), count, dtype, Mode::blocking);
  CHECK(same_bits(data, whole));
}

using Counts = std::vector<std::size_t>;
// Those above 6143 are of several chunks of every size but the last.
const Counts kCounts = sweep<Counts>({0, 1, 3, 255, 1024, 1025, 6143, 40'009, 140'017},
                                     {0, 1, 3, 255, 1024, 1025, 6143, 40'009, 140'017}, {1, 6143, 40'009, 140'017});

void check_counts(int size, const std::function<Wire(int, int)>& wire, const Plan& plan, std::size_t chunk) {
  constexpr std::size_t kEnoughChunks = 200;
  World world(size, wire, cut(plan, size, chunk));
  world.run([&](Rank& r) {
    for (const std::size_t count : kCounts) {
      if (count * sizeof(double) > kEnoughChunks * chunk) continue;
      check_all_reduce(r, DType::float32, Op::sum, count);
      check_all_reduce(r, DType::float64, Op::avg, count);
      check_broadcast(r, count);
      check_reduce(r, DType::int64, Op::max, count);
    }
  });
}

void check_blocks(int size, const std::function<Wire(int, int)>& wire, const Plan& plan, std::size_t chunk) {
  constexpr std::size_t kEnoughChunks = 60;
  World world(size, wire, cut(ring_plan(size), size, chunk, plan));
  world.run([&](Rank& r) {
    for (const std::size_t count :
         sweep<Counts>({0, 1, 255, 1025, 40'009}, {0, 1, 255, 1025, 40'009}, {1, 1025, 40'009})) {
      if (count * sizeof(double) * static_cast<std::size_t>(size) > kEnoughChunks * chunk) continue;
      check_blocks(r, DType::float32, Op::sum, count);
      check_blocks(r, DType::float64, Op::avg, count);
      check_blocks(r, DType::float32, Op::premul_sum, count);
    }
  });
}

// Long enough for several chunks on their way whatever sockets hold.
constexpr std::size_t kLong = std::size_t{16} << 20;

void every_count_on_every_wire(std::size_t chunk) {
  check_counts(5, mixed, two_and_three(), chunk);
  check_counts(5, staged, two_and_three(), chunk);
  check_counts(3, [](int, int) { return Wire::tcp; }, ring_plan(3), chunk);
  check_counts(3, [](int i, int) { return i == 0 ? Wire::tcp : Wire::shm; }, direct_plan(3), chunk);
  check_counts(4, [](int, int) { return Wire::tcp; }, flat_plan(4), chunk);
}

}  // namespace

TEST(every_count_in_eager_messages) { every_count_on_every_wire(1000); }

TEST(every_count_in_streams) { every_count_on_every_wire(70'001); }

TEST(every_count_in_long_streams) {
  every_count_on_every_wire(500'000);
  every_count_on_every_wire(kLong);  // more than the buffer
}

TEST(leaders_in_one_shot) {
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{70'001}}) {
    check_counts(5, mixed, leaders_of_two_and_three(), chunk);
    check_counts(5, staged, leaders_of_two_and_three(), chunk);
  }
}

TEST(every_count_of_blocks_on_every_wire) {
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{70'001}, kLong}) {
    check_blocks(5, mixed, blocks_of_two_and_three(), chunk);
    check_blocks(3, [](int, int) { return Wire::tcp; }, blocks_in_two_states(), chunk);
  }
  check_blocks(5, staged, blocks_of_two_and_three(), 70'001);
  check_blocks(3, [](int i, int) { return i == 0 ? Wire::tcp : Wire::shm; }, blocks_in_two_states(), 70'001);
  check_blocks(4, [](int, int) { return Wire::tcp; }, ring_plan(4), 1000);
}

TEST(chunks_smaller_than_an_element) {
  World world(2, [](int, int) { return Wire::tcp; }, cut(ring_plan(2), 2, 3));
  world.run([](Rank& r) {
    for (const std::size_t count : {1UL, 7UL, 100UL}) check_all_reduce(r, DType::float64, Op::sum, count);
  });
}

TEST(every_type_and_reduction) {
  World world(5, mixed, cut(two_and_three(), 5, 10'000));
  world.run([](Rank& r) {
    for (std::size_t dtype = 0; dtype < kDTypeNames.size(); ++dtype)
      for (std::size_t op = 0; op < kOpNames.size(); ++op)
        if (supports(static_cast<DType>(dtype), static_cast<Op>(op))) {
          check_all_reduce(r, static_cast<DType>(dtype), static_cast<Op>(op), 12'345);
          check_reduce(r, static_cast<DType>(dtype), static_cast<Op>(op), 12'345);
        }
  });
}

TEST(operations_follow_each_other_while_ranks_are_tracks_apart) {
  World world(5, mixed, cut(two_and_three(), 5, 4000));
  world.run([](Rank& r) {
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Handle> handles;
    for (int k = 0; k < 20; ++k) data.emplace_back(static_cast<std::size_t>(k * k * 100), r.rank + k);
    for (auto& values : data)
      handles.push_back(
          all_reduce(*r.engine, *r.group, bytes(values), values.size(), DType::int32, Op::sum, 1, Mode::async));
    for (auto& handle : handles) r.engine->wait(*handle, std::chrono::seconds(60));
    for (int k = 0; k < 20; ++k)
      for (const auto value : data[static_cast<std::size_t>(k)]) CHECK(value == 10 + 5 * k);
  });
}

TEST(a_rank_that_leaves_in_the_middle_is_named) {
  for (const std::size_t chunk : {20'000UL, 500'000UL}) {
    World world(5, mixed, cut(two_and_three(), 5, chunk));
    std::barrier begun(5);
    world.run([&](Rank& r) {
      std::vector<float> data(kLong / 4, 1);
      Error error;
      try {
        const auto operation =
            all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::async);
        begun.arrive_and_wait();
        if (r.rank == 3) {
          r.engine->close();
          return;
        }
        r.engine->wait(*operation, std::chrono::seconds(60));
      } catch (const Failure& failure) {
        error = {failure.kind, failure.what()};
      }
      CHECK(error.kind == ErrorKind::aborted);
      CHECK(error.message.find("rank 3 (thread) has closed the group while all_reduce #0") != std::string::npos);
    });
  }
}

TEST(a_rank_that_does_not_come_is_named) {
  World world(5, mixed, cut(two_and_three(), 5, 20'000), 5);  // once all have said for whom they wait
  world.run([](Rank& r) {
    if (r.rank == 4) return;
    std::vector<float> data(100'000, 1);
    Error error;
    try {
      all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
    } catch (const Failure& failure) {
      error = {failure.kind, failure.what()};
    }
    CHECK(error.kind == ErrorKind::timeout);
    CHECK(error.message.find("rank 4 (thread)") != std::string::npos);
  });
}
