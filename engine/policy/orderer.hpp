// Rank 0 of several machines: it hears which machine has what ready, and writes the log for all of them.
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
  // `log` brings an entry into the log of every machine. The dictionary is rank 0's and holds all that is in the log
  // whenever `take` is called.
  Orderer(const Seat& seat, const Dictionary& dictionary, std::function<void(const Words&)> log);

  // An entry from a rank, checked by `Board::receive`; `epoch`: how often all ranks have joined.
  void take(int from, std::span<const std::uint64_t> entry, std::uint64_t epoch);

  // The ranks of the machines that have not reported on this slot.
  std::vector<int> missing(std::uint32_t slot) const;

 private:
  struct Gathering {
    std::uint32_t round = 0;
    std::vector<std::pair<int, Report>> reports;  // with their machines
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
  std::vector<std::vector<int>> ranks_of_;  // each machine's
  std::vector<Gathering> gatherings_;       // by slot
  std::vector<std::uint64_t> full_at_;      // a machine whose ranks have all joined has nothing in slots defined before
  std::vector<bool> has_joined_;
  int last_joined_ = 0;
  int settled_ = 0;
  Tally starts_;
  Words words_;
};

}  // namespace paceline
