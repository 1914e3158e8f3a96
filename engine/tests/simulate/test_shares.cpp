// Rates of streams that share links are max-min fair, whatever begins and ends.
#include <algorithm>

#include "simulate/network/shares.hpp"
#include "simulate/random.hpp"
#include "tests/check.hpp"
#include "tests/sweep.hpp"

using namespace paceline::simulate;
using paceline::test::sweep;

namespace {

// Two rates that differ by what rounding makes.
bool no_more(double one, double other) { return one <= other * (1 + 1e-9); }

// Links and streams, with what they are known to be.
struct Network {
  std::vector<double> capacities;
  std::vector<std::vector<int>> streams = {};
  std::vector<bool> carries = {};
  Shares shares{capacities};

  void add(std::vector<int> links) {
    CHECK(shares.add(links) == streams.size());
    streams.push_back(std::move(links));
    carries.push_back(false);
  }
  void turn(std::size_t stream) {
    carries[stream] = !carries[stream];
    const auto number = static_cast<Shares::Number>(stream);
    carries[stream] ? shares.begin(number) : shares.end(number);
  }
  double rate(std::size_t stream) const { return shares.rate(static_cast<Shares::Number>(stream)); }

  // No link carries more than it can, and every stream has a full one on which none is faster (the theorem in section
  // 6.5.2 of Bertsekas and Gallager: such rates, and no others, are max-min fair).
  void check() const {
    std::vector<double> load(capacities.size());
    std::vector<double> fastest(capacities.size());
    for (std::size_t i = 0; i < streams.size(); ++i) {
      CHECK(carries[i] ? rate(i) > 0 : rate(i) == 0);
      for (const int link : streams[i]) {
        load[static_cast<std::size_t>(link)] += rate(i);
        fastest[static_cast<std::size_t>(link)] = std::max(fastest[static_cast<std::size_t>(link)], rate(i));
      }
    }
    for (std::size_t link = 0; link < capacities.size(); ++link) {
      CHECK(no_more(load[link], capacities[link]));
      CHECK(load[link] - 1e-6 < shares.load(static_cast<Shares::Number>(link)) &&
            shares.load(static_cast<Shares::Number>(link)) < load[link] + 1e-6);
    }
    for (std::size_t i = 0; i < streams.size(); ++i)
      CHECK(!carries[i] || std::ranges::any_of(streams[i], [&](int number) {
        const auto link = static_cast<std::size_t>(number);
        return no_more(capacities[link], load[link]) && no_more(fastest[link], rate(i));
      }));
  }
};

// Numbers below a limit, the same in every run.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) {
    return std::min(limit - 1, static_cast<std::size_t>(random_.uniform(0, 0, turn_++) * static_cast<double>(limit)));
  }

 private:
  const Random random_;
  std::uint64_t turn_ = 0;
};

}  // namespace

TEST(rates_stay_fair_whatever_changes) {
  for (std::uint64_t seed = 0; seed < sweep<std::uint64_t>(300, 60, 1); ++seed) {
    Dice dice(seed);
    // With few capacities many links are full at the same level.
    const std::size_t different = 1 + dice.below(20);
    Network network{std::vector<double>(2 + dice.below(20))};
    for (double& capacity : network.capacities) capacity = 1 + static_cast<double>(dice.below(different));
    network.shares = Shares(network.capacities);
    const std::size_t streams = 1 + dice.below(60);
    for (std::size_t i = 0; i < streams; ++i) {
      std::vector<int> links;
      for (std::size_t link = dice.below(network.capacities.size()); link < network.capacities.size();
           link += 1 + dice.below(6))
        links.push_back(static_cast<int>(link));
      network.add(std::move(links));
    }
    for (int round = 0; round < 200; ++round) {
      for (std::size_t changes = 1 + dice.below(dice.below(10) == 0 ? streams : 2); changes > 0; --changes)
        network.turn(dice.below(streams));
      if (dice.below(8) == 0) {
        const std::size_t link = dice.below(network.capacities.size());
        network.capacities[link] = 1 + static_cast<double>(dice.below(different));
        network.shares.limit(static_cast<Shares::Number>(link), network.capacities[link]);
      }
      network.shares.share();
      network.check();
    }
  }
}

TEST(what_begins_elsewhere_touches_nothing) {
  Network network{{6, 6, 100, 6}};
  for (const auto& links : {std::vector{0, 2}, {0, 2}, {1, 2}, {3}}) network.add(links);
  for (std::size_t i = 0; i < 3; ++i) network.turn(i);
  network.shares.share();
  network.check();
  network.turn(3);
  network.shares.share();
  CHECK(network.shares.touched() == std::vector<Shares::Number>{3});
  // Link 2 is not full, so that what ends on link 1 makes nobody faster on link 0.
  network.turn(2);
  network.shares.share();
  network.check();
  CHECK(std::ranges::count(network.shares.touched(), 0) == 0);
}

TEST(a_stream_that_begins_as_it_ends_changes_nothing) {
  Network network{{6, 6}};
  for (int i = 0; i < 3; ++i) network.add({0, 1});
  for (std::size_t i = 0; i < 3; ++i) network.turn(i);
  network.shares.share();
  network.turn(1);
  network.turn(1);
  network.shares.share();
  CHECK(network.shares.touched().empty() && network.shares.relevelled().empty());
  CHECK(network.rate(0) == 2 && network.rate(1) == 2 && network.rate(2) == 2);
}
