// Named all-gathers and all-to-alls on memory of a device, to which ranks bring different amounts.
#include <csignal>
#include <stdexcept>

#include "tests/device/coordinating.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

// What comes of a request, in memory that is allocated when its size is known.
class Outcome {
 public:
  explicit Outcome(DeviceRank& self) : self_(self) {}

  std::shared_ptr<const Allocate> allocate() {
    return std::make_shared<const Allocate>(
        [this](const std::vector<std::size_t>& counts, device::StreamHandle stream) {
          CHECK(stream != nullptr);
          const device::Current current(self_.driver(), self_.devices().get(0)->context());
          std::size_t total = 0;
          for (const std::size_t count : counts) total += count;
          CHECK(total > 0);
          values_ = std::make_unique<DeviceValues<float>>(self_, total);
          return values_->address();
        });
  }
  std::vector<float> get() const { return values_ == nullptr ? std::vector<float>() : values_->get(); }

 private:
  DeviceRank& self_;
  std::unique_ptr<DeviceValues<float>> values_;
};

RequestArguments exchange_of(Coordinating& seat, Collective collective, std::string_view name,
                             const DeviceValues<float>& values, std::shared_ptr<const Allocate> allocate) {
  RequestArguments arguments = seat.arguments(name, values, DType::float32);
  arguments.call.collective = collective;
  arguments.call.source = std::exchange(arguments.call.target, nullptr);
  arguments.shape = "*";
  arguments.allocate = std::move(allocate);
  return arguments;
}

Coordinating::Request all_gather(Coordinating& seat, std::string_view name, const DeviceValues<float>& values,
                                 Outcome& outcome) {
  return seat.coordinator().submit(exchange_of(seat, Collective::all_gather, name, values, outcome.allocate()));
}

std::vector<float> gathered(const std::vector<std::size_t>& counts) {
  std::vector<float> all;
  for (int rank = 0; const std::size_t count : counts) {
    const auto theirs = ramp_of(count, rank++);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

const std::vector<std::vector<std::size_t>> kAmounts = {
    {5, 5, 5},   {20'000, 20'000, 20'000}, {200'000, 200'000, 200'000}, {0, 0, 0},
    {3, 0, 700}, {0, 0, 150'000},          {400'000, 1, 250'000}};

void gathers(DeviceRank& self) {
  Coordinating seat(self);
  const auto me = static_cast<std::size_t>(self.rank());
  for (const auto& counts : kAmounts) {
    const DeviceValues<float> values(self, counts[me]);
    values.put(ramp_of(counts[me], self.rank()));
    Outcome outcome(self);
    const auto request = all_gather(seat, "rows", values, outcome);
    seat.wait(request);
    CHECK(request->counts == counts);
    CHECK(outcome.get() == gathered(counts));
    CHECK(values.get() == ramp_of(counts[me], self.rank()));
  }
}

// What rank `from` gives to rank `to`, in the table of amounts turned by as much.
std::size_t amount(const std::vector<std::size_t>& counts, int from, int to) {
  return counts[static_cast<std::size_t>(from + to) % counts.size()];
}

void sends_to_all(DeviceRank& self) {
  Coordinating seat(self);
  for (const auto& counts : kAmounts) {
    std::vector<float> mine;
    std::vector<float> right;
    std::vector<std::size_t> sent;
    std::vector<std::size_t> received;
    for (int other = 0; other < self.size(); ++other) {
      sent.push_back(amount(counts, self.rank(), other));
      received.push_back(amount(counts, other, self.rank()));
      const auto part = ramp_of(sent.back(), self.rank() * 3 + other);
      mine.insert(mine.end(), part.begin(), part.end());
      const auto theirs = ramp_of(received.back(), other * 3 + self.rank());
      right.insert(right.end(), theirs.begin(), theirs.end());
    }
    const DeviceValues<float> values(self, mine.size());
    values.put(mine);
    Outcome outcome(self);
    RequestArguments arguments = exchange_of(seat, Collective::all_to_all, "parts", values, outcome.allocate());
    arguments.counts = sent;
    const auto request = seat.coordinator().submit(arguments);
    seat.wait(request);
    CHECK(request->counts == received);
    CHECK(outcome.get() == right);
    CHECK(values.get() == mine);
  }
}

}  // namespace

TEST(all_gathers_of_different_amounts) { run({.size = 3}, gathers); }
TEST(all_gathers_without_kernels) { run({.size = 3, .kernels = false}, gathers); }
TEST(all_to_alls_of_different_amounts) { run({.size = 3}, sends_to_all); }
TEST(all_to_alls_without_kernels) { run({.size = 3, .kernels = false}, sends_to_all); }

// In any order, with all-reduces and requests of the host among them.
TEST(exchanges_among_other_requests) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    const auto me = static_cast<std::size_t>(self.rank());
    for (int step = 0; step < 3; ++step) {
      const std::vector<std::size_t> counts = {1000, 20, 40'000};
      const DeviceValues<float> rows(self, counts[me]);
      const DeviceValues<float> values(self, 30'000);
      rows.put(ramp_of(counts[me], self.rank()));
      values.put(ramp_of(values.count(), self.rank()));
      std::vector<float> here = ramp_of(500, self.rank());
      Outcome first(self);
      Outcome second(self);
      std::vector<Coordinating::Request> requests;
      for (int i = 0; i < 4; ++i) {
        switch ((i + self.rank() + step) % 4) {
          case 0: requests.push_back(all_gather(seat, "first", rows, first)); break;
          case 1: requests.push_back(seat.all_reduce("sum", values)); break;
          case 2: requests.push_back(seat.on_host("host", here)); break;
          default: requests.push_back(all_gather(seat, "second", rows, second)); break;
        }
      }
      for (const auto& request : requests) seat.wait(request);
      CHECK(first.get() == gathered(counts) && second.get() == gathered(counts));
      CHECK(values.get() == sum_of_ramps(values.count(), 3));
      CHECK(here == sum_of_ramps(500, 3));
    }
  });
}

// What waits for memory comes after what the caller's stream had to do when the request was submitted.
TEST(an_exchange_comes_after_its_stream) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 20'000);
    values.fill(0);
    TestStream stream(self);
    stream.hold();
    const std::vector<float> mine = ramp_of(values.count(), self.rank());
    values.put_on(stream.get(), mine);
    Outcome outcome(self);
    RequestArguments arguments = exchange_of(seat, Collective::all_gather, "rows", values, outcome.allocate());
    arguments.on_device->stream = stream.get();
    const auto request = seat.coordinator().submit(arguments);
    self.meet();
    CHECK(!self.engine().is_over(*request));
    stream.release();
    seat.wait(request);
    CHECK(outcome.get() == gathered({20'000, 20'000}));
  });
}

TEST(a_rank_that_has_joined_gives_nothing) {
  run({.size = 3}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> before(self, 100);
    seat.wait(seat.all_reduce("before", before));
    if (self.rank() < 2) {
      const auto me = static_cast<std::size_t>(self.rank());
      for (const auto& counts : std::vector<std::vector<std::size_t>>{{4000, 10, 0}, {0, 0, 0}, {300'000, 200, 0}}) {
        const DeviceValues<float> values(self, counts[me]);
        values.put(ramp_of(counts[me], self.rank()));
        Outcome outcome(self);
        const auto request = all_gather(seat, "rows", values, outcome);
        const DeviceValues<float> sum(self, 3000);
        sum.put(ramp_of(3000, self.rank()));
        const auto other = seat.all_reduce("sum", sum);
        seat.wait(request);
        seat.wait(other);
        CHECK(request->counts == counts);
        CHECK(outcome.get() == gathered(counts));
        CHECK(sum.get() == sum_of_ramps(3000, 2));
      }
    }
    seat.wait(seat.coordinator().join());
    seat.wait(seat.all_reduce("after", before));
  });
}

// Everything fails then, as when a rank is lost.
TEST(an_outcome_that_a_rank_has_no_memory_for) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 5000);
    Outcome outcome(self);
    seat.wait(all_gather(seat, "rows", values, outcome));
    RequestArguments arguments = exchange_of(seat, Collective::all_gather, "rows", values, outcome.allocate());
    if (self.rank() == 1)
      arguments.allocate = std::make_shared<const Allocate>(
          [](const std::vector<std::size_t>&, device::StreamHandle) -> device::Address {
            throw std::runtime_error("the device is full");
          });
    Error error = failure_of([&] { seat.wait(seat.coordinator().submit(arguments)); });
    CHECK(error.kind == ErrorKind::aborted);
    CHECK(contains(error.message, "rank 1 has no memory for the outcome of all_gather \"rows\""));
    CHECK(contains(error.message, "the device is full"));
    finish(self);
  });
}

TEST(a_rank_that_dies_in_an_exchange) {
  run({.size = 3, .leaves = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 200'000);
    seat.wait(seat.all_reduce("before", values));
    double_hold(nullptr);
    Outcome outcome(self);
    const auto request = all_gather(seat, "rows", values, outcome);
    self.meet();
    if (self.rank() == 2) ::raise(SIGKILL);
    const Error error = seat.failed(request);
    CHECK(error.kind == ErrorKind::peer_lost && contains(error.message, "rank 2"));
    double_release();
    finish(self);
  });
}

// Nobody may call what allocates once the request is over, and what it holds is let go without the engine's lock.
TEST(what_allocates_is_let_go) {
  run({.size = 2}, [](DeviceRank& self) {
    Coordinating seat(self);
    const DeviceValues<float> values(self, 5000);
    struct Held {
      Engine& engine;
      std::atomic<int>& gone;
      ~Held() {
        const auto lock = engine.host().enter();
        ++gone;
      }
    };
    std::atomic<int> gone = 0;
    Outcome outcome(self);
    for (int again = 1; again <= 3; ++again) {
      {
        const auto held = std::make_shared<Held>(self.engine(), gone);
        const auto by = outcome.allocate();
        auto allocate =
            std::make_shared<const Allocate>([held, by](const std::vector<std::size_t>& counts,
                                                        device::StreamHandle stream) { return (*by)(counts, stream); });
        seat.wait(
            seat.coordinator().submit(exchange_of(seat, Collective::all_gather, "rows", values, std::move(allocate))));
      }
      while (gone.load() < again) std::this_thread::yield();
    }
  });
}
