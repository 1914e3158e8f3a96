// Decides what becomes of a request that all ranks have submitted: it is issued, or it fails with one sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/dictionary.hpp"
#include "policy/entry.hpp"

namespace paceline {

// What a machine's ranks have submitted for a round of a slot.
struct Report {
  std::uint32_t slot = 0;
  std::uint32_t round = 0;
  std::int32_t priority = 0;  // the highest one
  std::uint32_t number = 0;   // the number of the description
  int absent = -1;            // a rank that has joined instead, or -1
  std::vector<std::pair<int, std::uint32_t>>
      disagreement;  // ranks and the numbers of their descriptions, if they differ
};

// A flag of `fail`: ranks disagree on the request's bundle.
inline constexpr std::uint8_t kDisputedBundle = 1;

// Returns the entry `issue` or `fail` for a slot's round. `sides` are ranks and the numbers of their descriptions, and
// matter only if there is more than one number.
void put_verdict(Words& words, const SlotState& slot, const Report& all,
                 std::span<const std::pair<int, std::uint32_t>> sides);

// Write a report as an entry `ready`, and read one that `is_report` has checked.
void put_report(Words& words, const Report& report);
bool is_report(std::span<const std::uint64_t> entry);
Report report_of(std::span<const std::uint64_t> entry);

// For example: ranks 0-3, 7
std::string ranks_text(std::vector<int> ranks);

}  // namespace paceline
