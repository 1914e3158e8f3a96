// All collectives but the all-reduce, on device memory of processes that share one device, on every path. They do what
// their definitions say, and leave what they only read as it was.
#include <csignal>

#include "calibration/device.hpp"
#include "tests/device/processes.hpp"
#include "tests/sweep.hpp"

using namespace paceline;
using namespace paceline::test;
using device::Kind;
using device::Path;

namespace {

using Values = std::vector<float>;

// What rank r brings along from its element `first` on: small whole numbers, so that all sums are exact.
Values brought(int rank, std::size_t count, std::size_t first = 0) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((first + i) % 97 + 100 * std::size_t(rank));
  return values;
}

Values total_of(int ranks, std::size_t count, std::size_t first = 0) {
  Values sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values one = brought(rank, count, first);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}

// An array of rank r that holds what it brings along, or anything.
struct Array : DeviceValues<float> {
  Array(DeviceRank& self, std::size_t count, Kind kind = Kind::device) : DeviceValues<float>(self, count, kind) {
    put(brought(self.rank(), count));
  }
};

void over(DeviceRank& self, const std::shared_ptr<device::Pending>& pending, Path path) {
  pending->order_before(nullptr);
  finish(self);
  CHECK(self.on_device().last().path == path);
}

void broadcasts(DeviceRank& self, std::size_t count, Path path, Kind kind) {
  for (int root = 0; root < self.size(); ++root) {
    const Array array(self, count, kind);
    over(self, device::broadcast(self.on_device(), array.address(), count, DType::float32, root, nullptr), path);
    CHECK(array.get() == brought(root, count));
  }
}

void reduces(DeviceRank& self, std::size_t count, Path path, Kind kind) {
  const int root = self.size() - 1;
  const Array array(self, count, kind);
  const auto reduce = [&](Op op, double factor) {
    over(self,
         device::reduce(self.on_device(), array.address(), array.address(), count, DType::float32, op, factor, root,
                        nullptr),
         path);
  };
  reduce(Op::sum, 1);
  CHECK(array.get() == (self.rank() == root ? total_of(self.size(), count) : brought(self.rank(), count)));
  array.put(brought(self.rank(), count));
  reduce(Op::premul_sum, 2);
  Values twice = total_of(self.size(), count);
  for (float& value : twice) value *= 2;
  CHECK(array.get() == (self.rank() == root ? twice : brought(self.rank(), count)));
}

void all_gathers(DeviceRank& self, std::size_t count, Path path, Kind kind) {
  const auto ranks = static_cast<std::size_t>(self.size());
  const auto own = static_cast<std::size_t>(self.rank());
  const Array input(self, count, kind);
  const DeviceValues<float> output(self, ranks * count, kind);
  Values expected;
  for (int rank = 0; rank < self.size(); ++rank) {
    const Values one = brought(rank, count);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  over(self, device::all_gather(self.on_device(), input.address(), output.address(), count, DType::float32, nullptr),
       path);
  CHECK(output.get() == expected && input.get() == brought(self.rank(), count));
  // In place, too.
  Values before(ranks * count, -1);
  const Values mine = brought(self.rank(), count);
  std::copy(mine.begin(), mine.end(), before.begin() + static_cast<std::ptrdiff_t>(own * count));
  output.put(before);
  const device::Address place = output.address() + own * count * sizeof(float);
  over(self, device::all_gather(self.on_device(), place, output.address(), count, DType::float32, nullptr), path);
  CHECK(output.get() == expected);
}

void reduce_scatters(DeviceRank& self, std::size_t count, Path path, Kind kind) {
  const auto ranks = static_cast<std::size_t>(self.size());
  const std::size_t begin = static_cast<std::size_t>(self.rank()) * count;
  const Array input(self, ranks * count, kind);
  const DeviceValues<float> output(self, count, kind);
  const auto scatter = [&](device::Address to, Op op, double factor) {
    over(self,
         device::reduce_scatter(self.on_device(), input.address(), to, count, DType::float32, op, factor, nullptr),
         path);
  };
  Values expected = total_of(self.size(), count, begin);
  scatter(output.address(), Op::sum, 1);
  CHECK(output.get() == expected && input.get() == brought(self.rank(), ranks * count));
  scatter(output.address(), Op::premul_sum, 4);
  for (float& value : expected) value *= 4;
  CHECK(output.get() == expected && input.get() == brought(self.rank(), ranks * count));
  scatter(input.address() + begin * sizeof(float), Op::max, 1);  // in place
  Values after = brought(self.rank(), ranks * count);
  const Values most = brought(self.size() - 1, count, begin);
  std::copy(most.begin(), most.end(), after.begin() + static_cast<std::ptrdiff_t>(begin));
  CHECK(input.get() == after);
}

std::vector<device::Block> blocks_in(device::Address data, const std::vector<std::size_t>& counts) {
  std::vector<device::Block> blocks;
  for (const std::size_t count : counts) {
    blocks.push_back({data, count});
    data += count * sizeof(float);
  }
  return blocks;
}

std::size_t elements_of(const std::vector<std::size_t>& counts) {
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  return total;
}

// count(from, to): the elements that a rank sends to another.
void all_to_all(DeviceRank& self, const std::function<std::size_t(int, int)>& count, Path path, Kind kind) {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
  Values expected;
  for (int other = 0; other < self.size(); ++other) {
    sent.push_back(count(self.rank(), other));
    received.push_back(count(other, self.rank()));
    std::size_t first = 0;
    for (int before = 0; before < self.rank(); ++before) first += count(other, before);
    const Values block = brought(other, received.back(), first);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  const Array input(self, elements_of(sent), kind);
  const DeviceValues<float> output(self, elements_of(received), kind);
  over(self,
       device::exchange(self.on_device(), Collective::all_to_all, blocks_in(input.address(), sent),
                        blocks_in(output.address(), received), DType::float32, -1, nullptr),
       path);
  CHECK(output.get() == expected && input.get() == brought(self.rank(), input.count()));
}

void exchanges(DeviceRank& self, std::size_t count, Path path, Kind kind) {
  all_to_all(self, [count](int, int) { return count; }, path, kind);
  all_to_all(self, [count](int from, int to) { return from == 1 ? 0 : count * std::size_t(to) + 1; }, path, kind);
}

// Blocks that lie in allocations of their own.
void gather_and_scatter(DeviceRank& self, std::size_t count, Path path) {
  const auto ranks = static_cast<std::size_t>(self.size());
  const int root = 1;
  const Array one(self, count);
  std::vector<Array> many;
  std::vector<device::Block> blocks(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    many.emplace_back(self, count);
    if (self.rank() == root) blocks[rank] = {many[rank].address(), count};
  }
  const std::vector<device::Block> own(ranks, {one.address(), count});  // all but the root's do not count
  over(self, device::exchange(self.on_device(), Collective::gather, own, blocks, DType::float32, root, nullptr), path);
  for (int rank = 0; rank < self.size(); ++rank)
    CHECK(many[std::size_t(rank)].get() == brought(self.rank() == root ? rank : self.rank(), count));
  one.fill(0);
  over(self, device::exchange(self.on_device(), Collective::scatter, blocks, own, DType::float32, root, nullptr), path);
  CHECK(one.get() == brought(self.rank(), count));
}

struct Amount {
  std::size_t count;
  Path path;
};

void every_collective(DeviceRank& self, const Amount& size, Path exchanged, Kind kind) {
  broadcasts(self, size.count, size.path, kind);
  reduces(self, size.count, size.path, kind);
  all_gathers(self, size.count, size.path, kind);
  reduce_scatters(self, size.count, size.path, kind);
  exchanges(self, size.count, exchanged, kind);
  gather_and_scatter(self, size.count, exchanged);
}

void each_of(int ranks) {
  run({.size = ranks}, [](DeviceRank& self) {
    for (const Amount& size : {Amount{3, Path::host}, Amount{5001, Path::one_shot}, Amount{140'001, Path::direct}})
      every_collective(self, size, Path::direct, Kind::device);
  });
}

// Elements in several chunks; under sanitizers only for collectives that have a block for each of three ranks.
constexpr std::size_t kMore = sweep<std::size_t>(calibration::kStagedChunk / sizeof(float) + 1001, 360'001, 360'001);

Error failed(const std::function<std::shared_ptr<device::Pending>()>& call) {
  return failure_of([&] { call()->wait(std::chrono::seconds(30)); });
}

}  // namespace

TEST(two_ranks_in_every_collective) { each_of(2); }
TEST(four_ranks_in_every_collective) { each_of(4); }

// It is copied to memory that they can map.
TEST(collectives_of_memory_that_others_cannot_map) {
  run({.size = 3}, [](DeviceRank& self) {
    for (const Amount& size : {Amount{5001, Path::one_shot}, Amount{140'001, Path::direct}})
      every_collective(self, size, Path::direct, self.rank() == 1 ? unmapped_kinds()[0] : Kind::device);
  });
}

TEST(collectives_in_chunks_through_the_host) {
  run({.size = 3, .kernels = false}, [](DeviceRank& self) {
    every_collective(self, {kMore, Path::staged}, Path::staged, Kind::device);
    // One rank has several chunks, and others have one or none.
    all_to_all(
        self, [](int from, int to) { return from == 0 && to == 2 ? kMore : std::size_t(from == 1 ? 10 : 0); },
        Path::staged, Kind::device);
    const Array after(self, 100);
    over(self, device::broadcast(self.on_device(), after.address(), 100, DType::float32, 2, nullptr), Path::host);
    CHECK(after.get() == brought(2, 100));
  });
}

TEST(collectives_of_nothing) {
  run({.size = 2}, [](DeviceRank& self) {
    device::DeviceGroup& group = self.on_device();
    CHECK(!failed([&] { return device::broadcast(group, 0, 0, DType::float32, 0, nullptr); }));
    CHECK(!failed([&] { return device::all_gather(group, 0, 0, 0, DType::float32, nullptr); }));
    const std::vector<device::Block> none(2);
    CHECK(!failed(
        [&] { return device::exchange(group, Collective::all_to_all, none, none, DType::float32, -1, nullptr); }));
  });
}

// Calls of all kinds follow each other on a stream, and nothing is waited for in between.
TEST(collectives_in_a_row) {
  run({.size = 3}, [](DeviceRank& self) {
    device::DeviceGroup& group = self.on_device();
    const auto ranks = static_cast<std::size_t>(self.size());
    for (const std::size_t count : {std::size_t{10}, std::size_t{4000}, std::size_t{140'000}}) {
      const Array whole(self, ranks * count);
      const Array part(self, count);
      for (int again = 0; again < sweep(30, 4, 8); ++again) {
        device::reduce_scatter(group, whole.address(), part.address(), count, DType::float32, Op::avg, 1, nullptr)
            ->order_before(nullptr);
        device::all_gather(group, part.address(), whole.address(), count, DType::float32, nullptr)
            ->order_before(nullptr);
        device::broadcast(group, part.address(), count, DType::float32, again % self.size(), nullptr)
            ->order_before(nullptr);
        device::all_reduce(group, whole.address(), ranks * count, DType::float32, Op::max, 1, nullptr)
            ->order_before(nullptr);
      }
      finish(self);
      Values mean = total_of(self.size(), ranks * count);
      for (float& value : mean) value /= static_cast<float>(self.size());
      CHECK(whole.get() == mean);
    }
  });
}

// A rank that brings nothing along gets on as well.
TEST(a_root_does_not_wait_on_the_host) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{50'000}, std::size_t{500'000}}) {
    run({.size = 2}, [count](DeviceRank& self) {
      const Array array(self, count);
      TestStream stream(self);
      self.on_device();
      stream.hold();
      const auto pending = device::broadcast(self.on_device(), array.address(), count, DType::float32, 1, stream.get());
      CHECK(!pending->done());
      pending->order_before(stream.get());
      stream.release();
      finish(self, stream.get());
      CHECK(array.get() == brought(1, count));
    });
  }
}

TEST(ranks_that_name_different_roots) {
  run({.size = 2}, [](DeviceRank& self) {
    const Array array(self, 1000);
    const Error error = failed([&] {
      return device::broadcast(self.on_device(), array.address(), 1000, DType::float32, self.rank(), nullptr);
    });
    CHECK(error.kind == ErrorKind::mismatch && contains(error.message, "rank 0 calls broadcast #"));
    CHECK(contains(error.message, "root 0") && contains(error.message, "root 1"));
    finish(self);
  });
}

TEST(amounts_that_do_not_fit) {
  for (const bool kernels : {true, false}) {
    run({.size = 3, .kernels = kernels}, [](DeviceRank& self) {
      const Array input(self, 3000);
      const Array output(self, 3000);
      const auto mine = blocks_in(input.address(), {10, 10, 10});
      const auto others = blocks_in(output.address(), {10, 10, self.rank() == 1 ? 20UL : 10UL});
      Error error;
      // Another rank may be through with the first one when rank 1 sees what is wrong.
      for (int again = 0; again < 2 && !error; ++again)
        error = failed([&] {
          return device::exchange(self.on_device(), Collective::all_to_all, mine, others, DType::float32, -1, nullptr);
        });
      CHECK(error.kind == ErrorKind::mismatch);
      CHECK(contains(error.message, "rank 2 sent 40 bytes in all_to_all #"));
      CHECK(contains(error.message, "rank 1 expects 80"));
      finish(self);
    });
  }
}

// The others have handed work to their streams, which must go on.
TEST(a_rank_that_is_killed_before_a_collective) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{5000}, std::size_t{200'000}}) {
    run({.size = 3, .leaves = 2}, [count](DeviceRank& self) {
      const Array input(self, count);
      const DeviceValues<float> output(self, 3 * count);
      self.on_device();
      self.meet();
      if (self.rank() == 2) ::raise(SIGKILL);
      const Error error = failed([&] {
        return device::all_gather(self.on_device(), input.address(), output.address(), count, DType::float32, nullptr);
      });
      finish(self);
      CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
    });
  }
}
