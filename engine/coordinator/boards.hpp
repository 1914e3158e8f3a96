// The memory of the boards on which the ranks of a machine agree: in the arena of the machine's first rank.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "execute/group.hpp"
#include "policy/make.hpp"
#include "policy/shared_board.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Boards {
 public:
  // On the first rank of a machine this sets memory for so many boards aside; throws std::bad_alloc.
  Boards(LoopHost& loop, const Group& control, const Seat& seat, std::size_t boards);

  // Where they lie in the arena of the machine's first rank, which alone knows this; 0 elsewhere.
  std::uint64_t offset() const;
  // Returns the boards, which live as long as this. Throws Failure (invalid) if this rank cannot see them there.
  std::vector<BoardMemory*> open(std::uint64_t offset);
  // This rank looks at them no more. The memory stays until all ranks have left it.
  void leave();

 private:
  std::byte* see(std::uint64_t offset, std::size_t bytes) const;
  std::uint64_t add(std::size_t bytes);

  LoopHost& loop_;
  const Group& control_;
  const std::size_t count_;
  const int leader_;  // the first rank of this machine
  const BoardShape shape_;
  std::unique_ptr<ArenaMemory> own_;
  std::vector<std::unique_ptr<ArenaMemory>> added_;
  std::span<std::byte> memory_;
  std::vector<std::unique_ptr<SharedBoard>> opened_;
};

}  // namespace paceline
