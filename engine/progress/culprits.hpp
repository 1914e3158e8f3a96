// Finds out who is to blame for a wait. A rank that has waited long asks those that it waits for what they wait for
// themselves, then those, and so on, again and again. Only a rank with something under way reads that and answers: one
// that is silent is stopped, out of reach, or elsewhere in its program.
//
// A round of questions asks each rank once at most, and none that still owes an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "progress/active_operations.hpp"
#include "progress/peers.hpp"
#include "progress/wait_graph.hpp"
#include "progress/wait_report.hpp"

namespace paceline {

class Culprits {
 public:
  // description: what peers call this process.
  Culprits(Peers& peers, const ActiveOperations& operations, const std::string& description)
      : peers_(peers), operations_(operations), description_(description) {}

  // Whom an operation waits for in the end, as far as is known.
  Blame of(const Operation& operation) const;
  // All of these ranks, by their descriptions.
  std::vector<std::string> named(const Operation& operation) const;

  // When to ask on behalf of this operation.
  Clock::time_point due(const Operation& operation) const;
  // Begins a round of questions.
  void ask(Clock::time_point now);
  void hear_question(int peer);
  void hear_answer(int peer, std::span<const std::byte> payload);
  // This process did not run for so long, and heard nothing.
  void forgive(Clock::duration pause);

 private:
  struct Known {
    int handle = -1;
    std::uint64_t round = 0;  // in which it was asked last
    bool asked = false;       // and has yet to answer
    Clock::time_point asked_at;
    WaitReport report;  // its last answer
  };

  std::vector<OwnWait> own(Clock::time_point now) const;
  // Of what was heard since then.
  WaitGraph graph(Clock::time_point since, const WaitReport& own, Clock::duration settled) const;
  std::vector<std::string> idlers(const Operation& operation, Clock::time_point since) const;
  bool was_missing(const std::string& who) const;  // in the last round of questions
  const WaitReport* heard(const std::string& who, Clock::time_point since) const;
  void ask(const std::string& who, Clock::time_point now);

  Peers& peers_;
  const ActiveOperations& operations_;
  const std::string& description_;
  std::unordered_map<std::string, Known> known_;  // by description
  std::uint64_t round_ = 0;
  Clock::time_point asked_ = Clock::time_point::min();  // when this round began
};

}  // namespace paceline
