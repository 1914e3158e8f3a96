// Messages between machines that are encoded: every codec, plan and link; the same bits on all ranks; and what is
// encoded is encoded once.
#include <cmath>
#include <random>

#include "program/lower.hpp"
#include "tests/plans.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr Codec kCodecs[] = {Codec::bf16, Codec::fp16, Codec::three_in_one, Codec::int8, Codec::int4, Codec::lossless};
const std::vector<Op> kOps = sweep<std::vector<Op>>({Op::sum, Op::avg}, {Op::sum, Op::avg}, {Op::sum});
const std::vector<std::size_t> kEncoded = sweep<std::vector<std::size_t>>({20'011, 60'007}, {60'007}, {20'011});

// The machine of every rank of a world.
using Machines = std::vector<int>;
const Machines kTwoAndThree{0, 0, 1, 1, 1};
const Machines kAlone{0, 1, 2};
const Machines kOneAndTwo{0, 1, 1};

World world_of(const Machines& machines, const Plans& plans, double timeout = 60) {
  return World(
      static_cast<int>(machines.size()),
      [&](int i, int j) {
        const auto of = [&](int rank) { return machines[static_cast<std::size_t>(rank)]; };
        return of(i) == of(j) ? Wire::shm : Wire::tcp;
      },
      plans, timeout);
}

void know_machines(Rank& r, const Machines& machines) { r.engine->set_machines(*r.group, machines); }

// Numbers that every codec keeps to within a small part of the largest; whole ones are exact in bfloat16.
std::vector<float> gradients(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

float whole_number(std::size_t place, int rank) {
  return static_cast<float>((place * 7 + static_cast<std::size_t>(rank) * 5) % 9);
}

std::vector<float> whole_numbers(int rank, std::size_t count) {
  return filled<float>(count, [&](std::size_t i) { return whole_number(i, rank); });
}

std::vector<float> sums_of_whole_numbers(int size, std::size_t count) {
  return filled<float>(count, [&](std::size_t i) {
    float sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += whole_number(i, rank);
    return sum;
  });
}

// Made once for all ranks, codecs and calls: under a sanitizer it takes longer than they do.
struct RandomNumbers {
  RandomNumbers(int size, std::size_t count) : sum(count) {
    for (int rank = 0; rank < size; ++rank) {
      const auto& mine = of_rank.emplace_back(gradients(rank, count));
      for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<double>(mine[i]);
    }
  }

  std::vector<std::vector<float>> of_rank;
  std::vector<double> sum;
};

// The most that one encoding may change a number by, where the largest is `largest`.
double loss(Codec codec, double value, double largest) {
  switch (codec) {
    case Codec::bf16: return std::abs(value) / 256;
    case Codec::fp16: return std::abs(value) / 2048 + 1e-7;
    case Codec::three_in_one: return std::abs(value) / 64 + std::ldexp(1.0, -15);
    case Codec::int8: return largest / 127;
    case Codec::int4: return largest / 7;
    default: return 0;
  }
}

// All ranks have the same bits: each gives rank 0 its own. So it is enough that rank 0 looks whether they are right.
template <typename T>
void check_same(Rank& r, std::vector<T>& values) {
  const std::size_t bytes_of = values.size() * sizeof(T);
  std::vector<std::byte> all(bytes_of * static_cast<std::size_t>(r.size));
  all_gather(*r.engine, *r.group, bytes(values), all.data(), bytes_of, DType::uint8, Mode::blocking);
  for (int rank = 0; rank < r.size; ++rank)
    CHECK(same_bits(values, std::span(all).subspan(bytes_of * static_cast<std::size_t>(rank), bytes_of)));
}

// Every element crosses at most as often as there are ranks in a chain of partial sums, and once more on its way back.
void check_close(const std::vector<float>& found, const std::vector<double>& right, Codec codec, int crossings,
                 double divisor, int ranks) {
  double largest = 0;
  for (const double value : right) largest = std::max(largest, std::abs(value));
  largest = std::max(largest, 5.0 * ranks);  // partial sums may be larger than the whole
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double most = crossings * loss(codec, codec == Codec::int8 || codec == Codec::int4 ? 0 : largest, largest);
    CHECK(std::abs(static_cast<double>(found[i]) * divisor - right[i]) <= most + 1e-4 * largest);
  }
}

void check_all_reduce(Rank& r, Codec codec, const RandomNumbers& numbers) {
  for (const Op op : kOps) {
    auto data = numbers.of_rank[static_cast<std::size_t>(r.rank)];
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, op, 1, Mode::blocking, {codec});
    check_same(r, data);
    if (r.rank == 0) check_close(data, numbers.sum, codec, r.size + 1, op == Op::avg ? r.size : 1, r.size);
  }
}

// Sums of small whole numbers are bfloat16s, so that they come out as without a codec, bit for bit.
void check_exact(Rank& r, std::size_t count) {
  const std::size_t before = static_cast<std::size_t>(r.rank) * count;
  for (const Codec codec : {Codec::bf16, Codec::fp16, Codec::lossless}) {
    if (!encodes(codec, DType::float32)) continue;
    auto data = whole_numbers(r.rank, count);
    all_reduce(*r.engine, *r.group, bytes(data), count, DType::float32, Op::sum, 1, Mode::blocking, {codec});
    CHECK(same_bits(data, sums_of_whole_numbers(r.size, count)));
    std::vector<float> all(count * static_cast<std::size_t>(r.size));
    auto mine = whole_numbers(r.rank, count);
    all_gather(*r.engine, *r.group, bytes(mine), bytes(all), count, DType::float32, Mode::blocking, {codec});
    for (int rank = 0; rank < r.size; ++rank)
      CHECK(
          same_bits(whole_numbers(rank, count), std::span(all).subspan(static_cast<std::size_t>(rank) * count, count)));
    const auto given = all;
    std::vector<float> part(count);
    for (const Op op : kOps) {
      reduce_scatter(*r.engine, *r.group, bytes(all), bytes(part), count, DType::float32, op, 1, Mode::blocking,
                     {codec});
      CHECK(same_bits(all, given));
      if (op == Op::sum)
        CHECK(same_bits(part, filled<float>(count, [&](std::size_t i) {
                          return whole_number(i, r.rank) * static_cast<float>(r.size);
                        })));
      else
        CHECK(same_bits(part, std::span(given).subspan(before, count)));
    }
    for (int root = 0; root < r.size; ++root) {
      data = whole_numbers(r.rank, count);
      broadcast(*r.engine, *r.group, bytes(data), count, DType::float32, root, Mode::blocking, {codec});
      CHECK(same_bits(data, whole_numbers(root, count)));
    }
  }
}

void check_broadcast(Rank& r, Codec codec, const RandomNumbers& numbers) {
  for (int root = 0; root < r.size; ++root) {
    auto data = numbers.of_rank[static_cast<std::size_t>(r.rank)];
    broadcast(*r.engine, *r.group, bytes(data), data.size(), DType::float32, root, Mode::blocking, {codec});
    check_same(r, data);
    if (r.rank != 0) continue;
    const auto& given = numbers.of_rank[static_cast<std::size_t>(root)];
    check_close(data, {given.begin(), given.end()}, codec, 1, 1, 1);
  }
}

void check_world(const Machines& machines, const Plan& plan, std::size_t chunk, const Plan& blocks = {}) {
  const auto size = static_cast<int>(machines.size());
  World world = world_of(machines, cut(plan, size, chunk, blocks));
  std::vector<RandomNumbers> all;
  for (const std::size_t count : kEncoded) all.emplace_back(size, count);
  world.run([&](Rank& r) {
    know_machines(r, machines);
    for (const RandomNumbers& numbers : all) {
      check_exact(r, numbers.sum.size());
      for (const Codec codec : kCodecs) {
        if (!encodes(codec, DType::float32)) continue;
        check_all_reduce(r, codec, numbers);
        check_broadcast(r, codec, numbers);
      }
    }
  });
}

}  // namespace

TEST(levels_within_and_between_machines) {
  for (const std::size_t chunk : {20'000UL, 100'000UL})
    check_world(kTwoAndThree, two_and_three(), chunk, blocks_of_two_and_three());
}

TEST(rings_pass_encoded_bytes_on_also_within_a_machine) {
  check_world(kTwoAndThree, ring_plan(5), 100'000);
  check_world({0, 1, 0, 1}, ring_plan(4), 100'000);
}

TEST(one_level) {
  check_world(kOneAndTwo, direct_plan(3), 100'000, direct_plan(3));
  check_world(kOneAndTwo, flat_plan(3), 100'000);
}

// Owners that hold nothing of their range, and ranges that are combined in pieces and given back as a whole.
TEST(uneven_plans) {
  check_world(kAlone, blocks_in_two_states(), 100'000, blocks_in_two_states());
  check_world(kTwoAndThree, binomial_plan(5), 100'000);
}

// What is lost is kept and added the next time, so that the mean of many calls comes ever closer to the truth.
TEST(error_feedback) {
  World world = world_of(kTwoAndThree, cut(two_and_three(), 5, 50'000));
  constexpr std::size_t kCount = 40'003;
  const RandomNumbers numbers(5, kCount);
  world.run([&](Rank& r) {
    know_machines(r, kTwoAndThree);
    constexpr int kCalls = sweep(40, 10, 5);
    for (const Codec codec : {Codec::bf16, Codec::int8, Codec::int4}) {
      if (!encodes(codec, DType::float32)) continue;
      const auto& right = numbers.sum;
      std::vector<float> residual(kCount);
      std::vector<double> total(kCount);
      double first = 0;
      for (int call = 0; call < kCalls; ++call) {
        auto data = numbers.of_rank[static_cast<std::size_t>(r.rank)];
        all_reduce(*r.engine, *r.group, bytes(data), kCount, DType::float32, Op::sum, 1, Mode::blocking,
                   {codec, bytes(residual)});
        check_same(r, data);
        for (std::size_t i = 0; r.rank == 0 && i < kCount; ++i) {
          total[i] += static_cast<double>(data[i]);
          if (call == 0) first = std::max(first, std::abs(total[i] - right[i]));
        }
      }
      double worst = 0;
      for (std::size_t i = 0; r.rank == 0 && i < kCount; ++i)
        worst = std::max(worst, std::abs(total[i] / kCalls - right[i]));
      CHECK(r.rank != 0 || (first > 0 && worst < 3 * first / kCalls));
    }
  });
}

TEST(nothing_is_encoded_on_one_machine_or_below_64_KiB) {
  World world = world_of(kTwoAndThree, cut(two_and_three(), 5, 50'000));
  world.run([&](Rank& r) {
    auto data = gradients(r.rank, 20'000);
    auto plain = data;
    const auto reduce = [&](std::vector<float>& values, Encoding wanted) {
      all_reduce(*r.engine, *r.group, bytes(values), values.size(), DType::float32, Op::sum, 1, Mode::blocking, wanted);
    };
    reduce(plain, {});
    reduce(data, {Codec::bf16});
    CHECK(data == plain);  // nobody has said who shares a machine
    know_machines(r, kTwoAndThree);
    data = gradients(r.rank, 20'000);
    reduce(data, {Codec::bf16});
    CHECK(data != plain);
    data = plain = gradients(r.rank, 16'000);
    reduce(plain, {});
    reduce(data, {Codec::bf16});
    CHECK(data == plain);
    r.engine->set_codec(*r.group, Codec::bf16);
    data = gradients(r.rank, 20'000);
    plain = data;
    reduce(plain, {Codec::none});
    reduce(data, {});
    CHECK(data != plain);
    r.engine->set_codec(*r.group, Codec::bf16, 80'001);  // bytes: one more than there are
    data = gradients(r.rank, 20'000);
    reduce(data, {});
    CHECK(data == plain);
    r.engine->set_codec(*r.group, Codec::bf16, 80'000);
    data = gradients(r.rank, 20'000);
    reduce(data, {});
    CHECK(data != plain);
  });
}

TEST(what_no_codec_takes_is_refused) {
  World world = world_of(kAlone, cut(ring_plan(3), 3, 50'000));
  world.run([&](Rank& r) {
    know_machines(r, kAlone);
    std::vector<double> data(20'000, 1);
    const Error error = failure_of([&] {
      all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float64, Op::max, 1, Mode::blocking,
                 {Codec::bf16});
    });
    CHECK(error.kind == ErrorKind::invalid);
    CHECK(error.message == "bf16 encodes sums and means of float32, not MAX of float64");
    std::vector<std::byte> halves(40'000 * size_of(DType::bfloat16));
    std::vector<float> residual(40'000);
    const Error unkept = failure_of([&] {
      all_reduce(*r.engine, *r.group, halves.data(), 40'000, DType::bfloat16, Op::sum, 1, Mode::blocking,
                 {Codec::lossless, bytes(residual)});
    });
    CHECK(unkept.kind == ErrorKind::invalid);
    CHECK(unkept.message == "a residual keeps what is lost of float32, not of bfloat16");
    r.engine->set_codec(*r.group, Codec::bf16);  // for what it takes
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float64, Op::sum, 1, Mode::blocking);
    for (const double value : data) CHECK(value == 3);
  });
}

TEST(ranks_that_ask_for_different_codecs_are_named) {
  World world = world_of(kAlone, cut(ring_plan(3), 3, 50'000));
  world.run([&](Rank& r) {
    know_machines(r, kAlone);
    std::vector<float> data(20'000, 1);
    const Error error = failure_of([&] {
      all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking,
                 {r.rank == 1 ? Codec::fp16 : Codec::bf16});
    });
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "float32[20000] SUM as bf16"));
    CHECK(contains(error.message, "float32[20000] SUM as fp16"));
  });
}

// Ranks that wait long tell each other so, and what they wait in.
TEST(a_rank_may_be_late) {
  World world = world_of(kAlone, cut(ring_plan(3), 3, 50'000));
  world.run([&](Rank& r) {
    know_machines(r, kAlone);
    std::vector<float> data(20'000, 1);
    if (r.rank == 1) std::this_thread::sleep_for(kProbeAfter + std::chrono::milliseconds(300));
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking,
               {Codec::bf16});
    for (const float value : data) CHECK(value == 3);
  });
}

namespace {

// What rank 0 is told when rank 1 speaks the protocol but sends this in place of `kGarbledCount` encoded elements.
constexpr std::size_t kGarbledCount = 20'000;

Error answer_to(Codec codec, std::vector<std::byte> sent) {
  Error error;
  World world = world_of({0, 1}, cut(flat_plan(2), 2, 0));
  world.run([&](Rank& r) {
    know_machines(r, {0, 1});
    std::vector<float> data(kGarbledCount, 1);
    const Error found = failure_of([&] {
      if (r.rank == 0)
        all_reduce(*r.engine, *r.group, bytes(data), kGarbledCount, DType::float32, Op::sum, 1, Mode::blocking,
                   {codec});
      else
        r.engine->run<MessageOperation>(*r.group,
                                        {kGarbledCount, -1, Collective::all_reduce, DType::float32, Op::sum, codec},
                                        sent.size(), Mode::blocking, [&](MessageOperation& operation) {
                                          Instruction send{Instruction::Kind::send, 0};
                                          send.from = sent.data();
                                          send.bytes = sent.size();
                                          operation.program.instructions.push_back(send);
                                          operation.program.end_track();
                                        });
    });
    if (r.rank == 0) error = found;
  });
  return error;
}

}  // namespace

TEST(truncated_flipped_and_too_many_bytes_are_named) {
  for (const Codec codec : kCodecs) {
    auto values = gradients(1, kGarbledCount);
    std::vector<std::byte> encoded(encoded_bound(codec, DType::float32, kGarbledCount));
    encoded.resize(encode(codec, DType::float32, bytes(values), kGarbledCount, encoded.data()));
    const std::string name(kCodecNames[static_cast<std::size_t>(codec)]);
    const auto check_garbled = [&](const std::vector<std::byte>& sent) {
      const Error error = answer_to(codec, sent);
      CHECK(error.kind == ErrorKind::peer_lost);
      CHECK(contains(error.message, "rank 1 (thread) sent " + std::to_string(sent.size()) + " bytes that are no " +
                                        name + " of 20000 elements"));
    };
    check_garbled({encoded.begin(), encoded.end() - 1});
    if (!has_fixed_size(codec)) {
      auto flipped = encoded;
      for (std::size_t i = 0; i < 4; ++i) flipped[i] ^= std::byte{0x55};  // the length of the first block
      check_garbled(flipped);
    }
    encoded.resize(encoded_bound(codec, DType::float32, kGarbledCount) + 64);
    const Error error = answer_to(codec, encoded);
    CHECK(error.kind == ErrorKind::mismatch);
    CHECK(contains(error.message, "rank 1"));
  }
}
