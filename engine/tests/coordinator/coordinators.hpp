// A world in which every rank has a coordinator.
#pragma once

#include <algorithm>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/coordinator.hpp"
#include "tests/repeat.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

namespace paceline::test {

// How ranks are spread over machines, one letter each: "0011".
inline std::vector<int> machines_of(const std::string& letters) {
  std::vector<int> machines;
  for (const char letter : letters) machines.push_back(letter - '0');
  return machines;
}

inline CollectiveCall all_reduce_of(std::vector<float>& data, Op op = Op::sum) {
  return {.collective = Collective::all_reduce,
          .target = bytes(data),
          .count = data.size(),
          .dtype = DType::float32,
          .op = op};
}

class Coordinated {
 public:
  explicit Coordinated(const std::string& machines, const std::string& policy = "board", PolicyOptions options = {},
                       double timeout = 60)
      : machines_(machines_of(machines)),
        size_(static_cast<int>(machines_.size())),
        world_(
            size_,
            [this](int i, int j) {
              return machines_[static_cast<std::size_t>(i)] == machines_[static_cast<std::size_t>(j)] ? Wire::shm
                                                                                                      : Wire::tcp;
            },
            false, timeout),
        coordinators_(static_cast<std::size_t>(size_)),
        data_(static_cast<std::size_t>(size_)) {
    std::vector<std::uint64_t> offsets(static_cast<std::size_t>(size_));
    std::barrier<> all(size_);
    world_.run([&](Rank& r) {
      const std::shared_ptr<Engine> engine(r.engine, [](Engine*) {});
      const auto group = [&](std::uint64_t channel) {
        return r.engine->add_group(channel, r.rank, r.peers, std::chrono::duration<double>(timeout),
                                   plans_for(size_, false));
      };
      auto& coordinator = coordinators_[static_cast<std::size_t>(r.rank)];
      auto& data = data_[static_cast<std::size_t>(r.rank)];
      data = group(1001);
      coordinator = std::make_shared<Coordinator>(engine, group(1000), data, policy, options, machines_);
      offsets[static_cast<std::size_t>(r.rank)] = coordinator->board_offset();
      all.arrive_and_wait();
      const int here = machines_[static_cast<std::size_t>(r.rank)];
      const auto leader = std::find(machines_.begin(), machines_.end(), here) - machines_.begin();
      coordinator->open(offsets[static_cast<std::size_t>(leader)]);
    });
  }

  ~Coordinated() {
    for (auto& coordinator : coordinators_) coordinator->close();
  }

  struct Seated {
    Rank& r;
    Coordinator& coordinator;
    Group& moving;  // that carries the payload

    int rank() const { return r.rank; }
    void wait(const std::shared_ptr<PendingRequest>& pending, double timeout = -1) {
      r.engine->wait(*pending, std::chrono::duration<double>(timeout));
    }
    std::shared_ptr<PendingRequest> all_reduce(const std::string& name, std::vector<float>& data, Op op = Op::sum,
                                               double prescale = 1, double postscale = 1, Bundle bundle = {}) {
      RequestArguments arguments{name, all_reduce_of(data, op)};
      arguments.prescale = prescale;
      arguments.postscale = postscale;
      arguments.bundle = bundle;
      return coordinator.submit(arguments);
    }
    // Is refused while another request of this name is under way.
    std::shared_ptr<PendingRequest> all_reduce_alone(const std::string& name, std::vector<float>& data,
                                                     PendingRequest::Callback callback) {
      RequestArguments arguments{name, all_reduce_of(data)};
      arguments.alone = true;
      return coordinator.submit(arguments, std::move(callback));
    }
    std::shared_ptr<PendingRequest> barrier(const std::string& name) {
      return coordinator.submit({name, {.collective = Collective::barrier}});
    }
  };

  void run(const std::function<void(Seated)>& body) {
    world_.run([&](Rank& r) {
      const auto rank = static_cast<std::size_t>(r.rank);
      body({r, *coordinators_[rank], *data_[rank]});
    });
  }
  World& world() { return world_; }
  int size() const { return size_; }

 private:
  std::vector<int> machines_;
  int size_;
  World world_;
  std::vector<std::shared_ptr<Coordinator>> coordinators_;
  std::vector<std::shared_ptr<Group>> data_;
};

// The machine of each rank.
inline const std::vector<std::string> kArrangements =
    sweep<std::vector<std::string>>({"0", "00", "000", "0000", "01", "0011", "010"}, {"000", "010"}, {"000", "010"});

inline const std::vector<std::string> kPolicies = {"board", "cycle", "global_sleep", "nonblocking"};

// With all policies at once: their ranks mostly wait for one another.
inline void everywhere(PolicyOptions options, const std::function<void(Coordinated&)>& body) {
  options.cycle_seconds = 0.0005;
  options.wait = Synchronise::Wait::yield;
  std::vector<std::thread> jobs;
  for (const std::string& policy : kPolicies)
    jobs.emplace_back([&] {
      for (const auto& machines : kArrangements) {
        Coordinated job(machines, policy, options);
        body(job);
      }
    });
  for (std::thread& job : jobs) job.join();
}

inline float sum_of_ranks(int size) { return static_cast<float>(size * (size + 1) / 2); }

inline std::vector<float> ramp(std::size_t count, int rank, int salt = 0) {
  return filled<float>(count, [&](std::size_t i) {
    return static_cast<float>((i + static_cast<std::size_t>(salt)) % 13 + 1) * static_cast<float>(rank + 1);
  });
}

inline void check_sum(const std::vector<float>& data, int size, int salt = 0) {
  auto expected = ramp(std::min(data.size(), kPeriod), 0, salt);
  for (float& value : expected) value *= sum_of_ranks(size);
  expected.resize(data.size());
  repeat(std::span(expected));
  CHECK(same_bits(data, expected));
}

}  // namespace paceline::test
