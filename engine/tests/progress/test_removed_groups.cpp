// What a rank keeps of groups that it has removed: nothing once all members have removed them.
#include <thread>
#include <vector>

#include "tests/world.hpp"

namespace paceline::test {
namespace {

constexpr int kSize = 3;

// Rank 2 is on a machine of its own.
Wire wire(int, int other) { return other == 2 ? Wire::tcp : Wire::shm; }

std::shared_ptr<Group> made(const Rank& rank, std::uint64_t channel) {
  return rank.engine->add_group(channel, rank.rank, rank.peers, std::chrono::seconds(60), plans_for(kSize, true));
}

void use(Rank& rank, Group& group) {
  std::vector<float> data(1000, 1);
  all_reduce(*rank.engine, group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
}

}  // namespace

TEST(removed_groups_are_forgotten_once_all_members_have_removed_them) {
  World world(kSize, wire);
  world.run([](Rank& rank) {
    std::shared_ptr<Group> last;
    for (std::uint64_t channel = 100; channel < 150; ++channel) {
      const auto group = made(rank, channel);
      failure_of([&] { use(rank, *group); });
      // One that has failed ends, too, and so does one that a rank keeps longer than the others.
      if (channel % 3 == 0 && rank.rank == 1) rank.engine->abort(*group, "asked to");
      if (channel == 149 && rank.rank == 0) last = group;
      if (last == nullptr) failure_of([&] { rank.engine->remove_group(*group); });
    }
    barrier(*rank.engine, *rank.group, Mode::blocking);
    CHECK(rank.engine->removed_early() == (rank.rank == 0 ? 0 : 1));
    barrier(*rank.engine, *rank.group, Mode::blocking);
    if (last != nullptr) rank.engine->remove_group(*last);
    while (rank.engine->removed_early() > 0) std::this_thread::yield();
  });
}

TEST(groups_that_a_lost_rank_has_not_removed_are_forgotten) {
  World world(kSize, wire);
  world.run([](Rank& rank) {
    const auto group = made(rank, 7);
    use(rank, *group);
    if (rank.rank == 2) return rank.engine->close();
    rank.engine->remove_group(*group);
    while (rank.engine->removed_early() > 0) std::this_thread::yield();
  });
}

}  // namespace paceline::test
