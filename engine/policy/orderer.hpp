// The part of rank 0 in a job of several machines: it hears which machine has what ready, and writes the log for all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "policy/dictionary.hpp"
#include "policy/entry.hpp"
#include "policy/make.hpp"
#include "policy/tally.hpp"
#include "policy/verdict.hpp"

namespace paceline {

class Orderer {
 public:
  // `log` brings an entry into the log of every machine. The dictionary is rank 0's, and knows the whole log whenever
  // `take` is called.
  Orderer(const Seat& seat, const Dictionary& dictionary, std::function<void(const Words&)> log);

  // Takes an entry from a rank, which `Board::receive` has checked; `epoch` is how often all ranks have joined.
  void take(int from, std::span<const std::uint64_t> entry, std::uint64_t epoch);

  // Returns the ranks of the machines that have not reported on this slot.
  std::vector<int> missing(std::uint32_t slot) const;

 private:
  struct Gathering {
    std::uint32_t round = 0;
    std::vector<std::pair<int, Report>> reports;  // and the machines that they come from
    std::vector<bool> reported;                   // by machine
  };

  bool covered(std::size_t machine, std::uint32_t slot) const {
    return full_at_[machine] > dictionary_[slot].defined_at;
  }
  void take_ready(int from, std::span<const std::uint64_t> entry);
  void decide(std::uint32_t slot);
  void take_define(std::span<const std::uint64_t> entry);
  void take_settle();
  void take_start(std::span<const std::uint64_t> entry);

  const Dictionary& dictionary_;
  const std::function<void(const Words&)> log_;
  std::vector<int> machine_of_;
  std::vector<std::vector<int>> ranks_of_;  // by machine
  std::vector<Gathering> gatherings_;       // by slot
  std::vector<std::uint64_t> full_at_;      // by machine: it has nothing in slots defined before, as all have joined
  std::vector<bool> has_joined_;
  int last_joined_ = 0;
  int settled_ = 0;
  Tally starts_;
  Words words_;
};

}  // namespace paceline
