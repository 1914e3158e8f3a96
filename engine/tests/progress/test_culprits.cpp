// What ranks ask each other about their waits: who is found, and how much is asked.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/world.hpp"

namespace paceline::test {
namespace {

constexpr std::size_t kMany = 100'000;  // elements of a message that is not over before it is received
constexpr auto kPatience = std::chrono::seconds(3);

// A group of two ranks of the job.
std::shared_ptr<Group> pair(Rank& r, int one, int other) {
  const std::vector<int> peers{r.peers[static_cast<std::size_t>(one)], r.peers[static_cast<std::size_t>(other)]};
  const auto channel = static_cast<std::uint64_t>(1000 + 10 * one + other);
  return r.engine->add_group(channel, r.rank == one ? 0 : 1, peers, std::chrono::seconds(60), plans_for(2, false));
}

Error timeout_of(Rank& r, const std::shared_ptr<Operation>& operation) {
  return failure_of([&] { r.engine->wait(*operation, kPatience); });
}

std::shared_ptr<Operation> takes(Rank& r, Group& group, std::vector<float>& data, int from) {
  return receive(*r.engine, group, bytes(data), data.size(), DType::float32, from, 0, Mode::async);
}

}  // namespace

TEST(a_timeout_names_who_waits_for_nobody_over_messages_and_groups) {
  for (const Wire wire : {Wire::shm, Wire::tcp}) {
    World world(4, [=](int, int) { return wire; });
    std::atomic<bool> done = false;
    world.run([&](Rank& r) {
      std::vector<float> data(kMany, 1);
      if (r.rank == 0) {
        while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return;
      }
      const auto waits = [&](const std::shared_ptr<Operation>& operation) {
        return failure_of([&] { r.engine->wait(*operation, std::chrono::seconds(-1)); });
      };
      if (r.rank == 3) {  // for rank 2, which waits for rank 1, which waits for rank 0
        const Error error = timeout_of(r, takes(r, *r.group, data, 2));
        done = true;
        CHECK(error.kind == ErrorKind::timeout);
        CHECK(error.culprit == "rank 0 (thread)");
        const std::string way = "it waits for rank 2 (thread), which waits for rank 1 (thread), which waits for rank 0";
        CHECK(contains(error.message, way + " (thread)"));
        r.engine->abort(*r.group, "enough");
      } else if (r.rank == 2) {
        const auto group = pair(r, 1, 2);
        const auto operation = barrier(*r.engine, *group, Mode::async);
        waits(operation);
      } else {
        const auto group = pair(r, 1, 2);
        const auto operation = takes(r, *r.group, data, 0);
        waits(operation);  // until rank 3 has had enough
        r.engine->abort(*group, "enough");
      }
    });
  }
}

TEST(ranks_that_wait_for_each_other_ask_little) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::atomic<int> over = 0;
  world.run([&](Rank& r) {
    std::vector<float> data(kMany, 1);
    const auto before = r.engine->received(*r.group, 1 - r.rank);
    const auto operation = takes(r, *r.group, data, 1 - r.rank);
    if (r.rank == 1) {
      const Error error = failure_of([&] { r.engine->wait(*operation, std::chrono::seconds(-1)); });
      CHECK(contains(error.message, "rank 0 (thread) and rank 1 (thread) wait for each other"));
      return;
    }
    const Error error = timeout_of(r, operation);
    CHECK(error.kind == ErrorKind::timeout && error.culprit.empty());
    CHECK(contains(error.message, "; rank 0 (thread) and rank 1 (thread) wait for each other"));
    // A question and an answer of each in every round, of which there are four in the patience of a rank.
    CHECK(r.engine->received(*r.group, 1) - before < 8 * 200);
  });
}

}  // namespace paceline::test
