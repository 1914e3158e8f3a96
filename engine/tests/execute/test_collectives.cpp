// Every collective over every kind of link, with exact results; from several threads and in several groups at once.
#include <algorithm>

#include "tests/repeat.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

using Counts = std::vector<std::size_t>;
const Counts kCounts = sweep<Counts>({0, 1, 3, 256, 257, 1000, 40'000, 300'007},
                                     {0, 1, 3, 256, 257, 1000, 40'000, 300'007}, {1, 257, 40'000});

template <typename T, typename Each>
std::vector<T> numbers(std::size_t count, const Each& each) {
  return filled<T>(count, [&](std::size_t i) { return each(static_cast<int>(i)); });
}

void check_all_reduce(Rank& r, std::size_t count) {
  const int ranks = r.size * (r.size - 1) / 2;
  for (const Op op : {Op::sum, Op::avg, Op::max}) {
    auto data = numbers<std::int64_t>(count, [&](int i) { return i * r.size + r.rank; });
    all_reduce(*r.engine, *r.group, bytes(data), count, DType::int64, op, 1, Mode::blocking);
    CHECK(data == numbers<std::int64_t>(count, [&](int i) {
            const int sum = i * r.size * r.size + ranks;
            return op == Op::sum ? sum : op == Op::avg ? sum / r.size : i * r.size + r.size - 1;
          }));
  }
}

void check_movement(Rank& r, std::size_t count) {
  const auto n = static_cast<std::size_t>(r.size);
  const auto all_of = [count](std::int32_t value) { return numbers<std::int32_t>(count, [=](int) { return value; }); };
  std::vector<std::int32_t> everybodys;
  for (int rank = 0; rank < r.size; ++rank) {
    const auto its = all_of(rank);
    everybodys.insert(everybodys.end(), its.begin(), its.end());
  }
  auto mine = all_of(r.rank);
  std::vector<std::int32_t> all(count * n, -1);
  all_gather(*r.engine, *r.group, bytes(mine), bytes(all), count, DType::int32, Mode::blocking);
  CHECK(all == everybodys);

  for (int root = 0; root < r.size; ++root) {
    auto data = all_of(r.rank);
    broadcast(*r.engine, *r.group, bytes(data), count, DType::int32, root, Mode::blocking);
    CHECK(data == all_of(root));
    data = all_of(r.rank + 1);
    reduce(*r.engine, *r.group, bytes(data), count, DType::int32, Op::sum, 1, root, Mode::blocking);
    CHECK(data == all_of(r.rank == root ? r.size * (r.size + 1) / 2 : r.rank + 1));
  }

  auto source = numbers<std::int32_t>(count * n, [&](int i) { return i + r.rank; });
  const auto before = source;
  std::vector<std::int32_t> part(count);
  reduce_scatter(*r.engine, *r.group, bytes(source), bytes(part), count, DType::int32, Op::sum, 1, Mode::blocking);
  CHECK(source == before);
  const auto sums = numbers<std::int32_t>(count * n, [&](int i) { return i * r.size + r.size * (r.size - 1) / 2; });
  CHECK(std::ranges::equal(part, std::span(sums).subspan(static_cast<std::size_t>(r.rank) * count, count)));

  std::vector<Elements> sends;
  std::vector<Elements> recvs;
  source = numbers<std::int32_t>(count * n, [&](int) { return r.rank; });
  for (std::size_t i = 0; i < n; ++i) {
    sends.push_back({bytes(source) + i * count * 4, count});
    recvs.push_back({bytes(all) + i * count * 4, count});
  }
  exchange(*r.engine, *r.group, Collective::all_to_all, sends, recvs, DType::int32, -1, Mode::blocking);
  CHECK(all == everybodys);
  exchange(*r.engine, *r.group, Collective::gather, sends, recvs, DType::int32, r.size - 1, Mode::blocking);
  exchange(*r.engine, *r.group, Collective::scatter, sends, recvs, DType::int32, 0, Mode::blocking);
  barrier(*r.engine, *r.group, Mode::blocking);
}

void check_point_to_point(Rank& r) {
  const int next = (r.rank + 1) % r.size;
  const int previous = (r.rank + r.size - 1) % r.size;
  for (const std::size_t count : {0UL, 5UL, 2000UL, 200'000UL}) {
    std::vector<std::uint8_t> out(count, static_cast<std::uint8_t>(r.rank));
    std::vector<std::uint8_t> swapped(count);
    std::vector<std::uint8_t> in(count);
    // Tags are matched, not the order of posting.
    auto a = send(*r.engine, *r.group, bytes(out), count, DType::uint8, next, 1, Mode::async);
    auto b = send(*r.engine, *r.group, bytes(out), count, DType::uint8, next, 2, Mode::async);
    auto second = receive(*r.engine, *r.group, bytes(swapped), count, DType::uint8, previous, 2, Mode::async);
    auto first = receive(*r.engine, *r.group, bytes(in), count, DType::uint8, -1, 1, Mode::async);
    for (const auto& operation : {a, b, second, first})
      if (operation) r.engine->wait(*operation, std::chrono::seconds(60));
    CHECK(first->source() == previous);
    CHECK(in == std::vector(count, static_cast<std::uint8_t>(previous)));
    CHECK(in == swapped);
  }
}

void check_world(int size, const std::function<Wire(int, int)>& wire, bool ring) {
  World world(size, wire, ring);
  world.run([](Rank& r) {
    for (const std::size_t count : kCounts) {
      check_all_reduce(r, count);
      check_movement(r, count);
    }
    if (r.size > 1) check_point_to_point(r);
  });
}

}  // namespace

TEST(one_machine) {
  for (const int size : {1, 2, 3, 4}) check_world(size, [](int, int) { return Wire::shm; }, size == 3);
}

TEST(one_machine_without_cross_process_reads) {
  for (const int size : {2, 3}) check_world(size, [](int, int) { return Wire::staged; }, false);
}

TEST(several_machines) {
  for (const int size : {2, 3, 4}) check_world(size, [](int, int) { return Wire::tcp; }, size == 4);
}

TEST(a_mixture) {
  check_world(4, [](int i, int j) { return i / 2 == j / 2 ? Wire::shm : Wire::tcp; }, true);
  check_world(4, [](int i, int j) { return i / 2 == j / 2 ? Wire::shm : Wire::tcp; }, false);
}

TEST(premultiplied_sums) {
  World world(3, [](int i, int) { return i == 0 ? Wire::tcp : Wire::shm; });
  world.run([](Rank& r) {
    std::vector<double> data(5000, r.rank + 1);
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float64, Op::premul_sum, 0.5, Mode::blocking);
    for (const auto value : data) CHECK(value == 3);
    std::vector<double> source(6000, r.rank + 1);
    std::vector<double> part(2000);
    reduce_scatter(*r.engine, *r.group, bytes(source), bytes(part), 2000, DType::float64, Op::premul_sum, 0.5,
                   Mode::blocking);
    for (const auto value : part) CHECK(value == 3);
    for (const auto value : source) CHECK(value == r.rank + 1);
  });
}

TEST(many_operations_in_flight) {
  World world(3, [](int i, int) { return i == 0 ? Wire::tcp : Wire::shm; });
  world.run([](Rank& r) {
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Handle> handles;
    for (int k = 0; k < 40; ++k) data.emplace_back(static_cast<std::size_t>(k * k * 50), r.rank + k);
    for (auto& values : data)
      handles.push_back(
          all_reduce(*r.engine, *r.group, bytes(values), values.size(), DType::int32, Op::sum, 1, Mode::async));
    for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle)
      r.engine->wait(**handle, std::chrono::seconds(60));
    for (int k = 0; k < 40; ++k)
      for (const auto value : data[static_cast<std::size_t>(k)]) CHECK(value == 3 + 3 * k);
  });
}

TEST(several_threads_in_several_groups) {
  World world(2, [](int, int) { return Wire::shm; });
  world.run([](Rank& r) {
    std::vector<std::thread> threads;
    for (std::uint64_t channel = 100; channel < 104; ++channel) {
      threads.emplace_back([&r, channel] {
        auto group = r.engine->add_group(channel, r.rank, r.peers, std::chrono::seconds(60), plans_for(2, false));
        for (int round = 0; round < 50; ++round) {
          std::vector<std::int64_t> data(static_cast<std::size_t>(round * 37), static_cast<std::int64_t>(channel));
          all_reduce(*r.engine, *group, bytes(data), data.size(), DType::int64, Op::sum, 1, Mode::blocking);
          for (const auto value : data) CHECK(value == static_cast<std::int64_t>(2 * channel));
        }
        r.engine->remove_group(*group);
      });
    }
    for (auto& thread : threads) thread.join();
  });
}
