// What ranks of one machine share for the policy `board`: who has handed in what, and a log of the order.
//
// Each function is one atomic step, sequentially consistent; implementations: atomics in an arena (the engine), plain
// memory (tests, simulation). Slots are names; a slot's round ends when it is claimed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline {

class BoardMemory {
 public:
  BoardMemory() = default;
  virtual ~BoardMemory() = default;
  BoardMemory(const BoardMemory&) = delete;
  BoardMemory& operator=(const BoardMemory&) = delete;

  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  // The slot of this name, the same on all ranks; made at first sight. kNoSlot if there is no room.
  virtual std::uint32_t slot(std::string_view name) = 0;
  virtual std::string_view name(std::uint32_t slot) const = 0;
  // How many slots there are.
  virtual std::uint32_t slots() const = 0;

  // Local rank `rank` has handed in the slot's request; `digest` tells requests apart that do not agree.
  virtual void arrive(std::uint32_t slot, int rank, std::uint64_t digest) = 0;
  virtual bool arrived(std::uint32_t slot, int rank) const = 0;
  virtual std::uint64_t digest(std::uint32_t slot, int rank) const = 0;
  // True for exactly one caller each round. The marks of arrival are taken off before anybody can see what it does next.
  virtual bool claim(std::uint32_t slot, std::uint64_t round) = 0;
  virtual std::uint64_t round(std::uint32_t slot) const = 0;

  virtual void join(int rank, bool joined) = 0;
  virtual bool joined(int rank) const = 0;

  // The log: entry n is the same for everybody once it is there. `append` takes the next free number.
  virtual std::uint64_t append(std::uint64_t entry) = 0;
  virtual void put(std::uint64_t number, std::uint64_t entry) = 0;
  virtual std::optional<std::uint64_t> entry(std::uint64_t number) const = 0;
};

}  // namespace paceline
