// What this rank waits for, and on whom: for warnings, and for what is said when a deadline is reached.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "progress/active_operations.hpp"
#include "progress/culprits.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

// An operation that is not over yet, and the ranks that it waits for in the end.
struct Wait {
  std::uint64_t operation = 0;
  std::chrono::duration<double> time{};
  std::chrono::duration<double> left{};  // until its deadline
  std::uint64_t thread = 0;              // of the caller that waits, see Operation::waiter
  std::string what;
  std::vector<Missing> missing;
};

class Waits {
 public:
  Waits(const ActiveOperations& operations, const Culprits& culprits, const Whereabouts& whereabouts)
      : operations_(operations), culprits_(culprits), whereabouts_(whereabouts) {}

  // The oldest collective and the oldest point-to-point operation of each group: later ones wait for them.
  std::vector<Wait> list() const;
  // Adds words to the reason that is given if this operation, one of `list`, reaches its deadline.
  void annotate(std::uint64_t operation, std::string words);
  // The words for this operation; empty if there are none.
  std::string note(std::uint64_t operation) const;

 private:
  const ActiveOperations& operations_;
  const Culprits& culprits_;
  const Whereabouts& whereabouts_;
  std::unordered_map<std::uint64_t, std::string> notes_;
};

}  // namespace paceline
