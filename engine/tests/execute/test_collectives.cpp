// Every collective over every kind of link, with exact results; from several threads and in several groups at once.
#include <numeric>

#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::size_t kCounts[] = {0, 1, 3, 256, 257, 1000, 40'000, 300'007};

void check_all_reduce(Rank& r, std::size_t count) {
  std::vector<std::int64_t> data(count);
  for (const Op op : {Op::sum, Op::avg, Op::max}) {
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int64_t>(i % 97) * r.size + r.rank;
    all_reduce(*r.engine, *r.group, bytes(data), count, DType::int64, op, 1, Mode::blocking);
    const std::int64_t ranks = r.size * (r.size - 1) / 2;
    for (std::size_t i = 0; i < count; ++i) {
      const auto each = static_cast<std::int64_t>(i % 97) * r.size;
      const std::int64_t sum = each * r.size + ranks;
      CHECK(data[i] == (op == Op::sum ? sum : op == Op::avg ? sum / r.size : each + r.size - 1));
    }
  }
}

void check_movement(Rank& r, std::size_t count) {
  const auto n = static_cast<std::size_t>(r.size);
  std::vector<std::int32_t> mine(count, r.rank);
  std::vector<std::int32_t> all(count * n, -1);
  all_gather(*r.engine, *r.group, bytes(mine), bytes(all), count, DType::int32, Mode::blocking);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int32_t>(i / count));

  for (int root = 0; root < r.size; ++root) {
    std::vector<std::int32_t> data(count, r.rank);
    broadcast(*r.engine, *r.group, bytes(data), count, DType::int32, root, Mode::blocking);
    for (const auto value : data) CHECK(value == root);
    std::fill(data.begin(), data.end(), r.rank + 1);
    reduce(*r.engine, *r.group, bytes(data), count, DType::int32, Op::sum, 1, root, Mode::blocking);
    for (const auto value : data) CHECK(value == (r.rank == root ? r.size * (r.size + 1) / 2 : r.rank + 1));
  }

  std::vector<std::int32_t> source(count * n);
  std::iota(source.begin(), source.end(), r.rank);
  const auto before = source;
  std::vector<std::int32_t> part(count);
  reduce_scatter(*r.engine, *r.group, bytes(source), bytes(part), count, DType::int32, Op::sum, 1, Mode::blocking);
  CHECK(source == before);
  for (std::size_t i = 0; i < count; ++i) {
    const auto each = static_cast<std::int32_t>(static_cast<std::size_t>(r.rank) * count + i);
    CHECK(part[i] == each * r.size + r.size * (r.size - 1) / 2);
  }

  std::vector<Buffer> sends;
  std::vector<Buffer> recvs;
  std::fill(source.begin(), source.end(), r.rank);
  for (std::size_t i = 0; i < n; ++i) {
    sends.push_back({bytes(source) + i * count * 4, count});
    recvs.push_back({bytes(all) + i * count * 4, count});
  }
  exchange(*r.engine, *r.group, Collective::all_to_all, sends, recvs, DType::int32, -1, Mode::blocking);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int32_t>(i / count));
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
    for (const auto value : in) CHECK(value == previous);
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
