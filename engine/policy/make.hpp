// Makes policies by their names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/policy.hpp"

namespace paceline {

struct PolicyOptions {
  std::uint64_t fusion_bytes = std::uint64_t{64} << 20;
  Synchronise::Wait wait = Synchronise::Wait::spin;  // for cycle and global_sleep
  double cycle_seconds = 0.005;                      // for cycle, global_sleep, nonblocking; for board see Holding
  std::uint32_t cache_capacity = 1024;               // requests; for cycle, global_sleep and nonblocking
  std::uint32_t sleep_every = 1;                     // cycles between two agreed sleeps, for global_sleep
};

// A rank of a group, and which of its ranks share a machine.
struct Seat {
  int rank = 0;
  std::vector<int> machine_of;  // by rank: a number, the same for ranks that share a board

  int size() const { return static_cast<int>(machine_of.size()); }
};

// Returns how many boards a policy of this name shares with the other ranks of its machine.
std::size_t boards_of(const std::string& name);

// Returns whether a policy of this name takes batches back.
bool takes_back(const std::string& name);

// Makes one of board, graph, cycle, global_sleep, nonblocking, and switching (see there). The boards must outlive the
// policy; their local ranks are those of the seat's machine, in the order of the group. Throws Failure (invalid) for
// another name, and for arguments that do not fit together.
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options, const Seat& seat,
                                    const std::vector<BoardMemory*>& boards);

}  // namespace paceline
