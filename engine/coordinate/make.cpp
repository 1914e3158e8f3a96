#include "coordinate/make.hpp"

#include "coordinate/board.hpp"
#include "failure/error.hpp"

namespace paceline {

bool needs_board(const std::string& name) { return name == "board"; }

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options, const Seat& seat,
                                    BoardMemory* board) {
  if (seat.rank < 0 || seat.rank >= seat.size())
    throw Failure(ErrorKind::invalid,
                  "rank " + std::to_string(seat.rank) + " is not in a group of " + std::to_string(seat.size()));
  if (needs_board(name) != (board != nullptr))
    throw Failure(ErrorKind::invalid, "the policy " + name + (board ? " takes no board" : " needs a board"));
  if (name == "board") return std::make_unique<Board>(options, seat, *board);
  throw Failure(ErrorKind::invalid, "no such policy: " + name + "; there is board");
}

}  // namespace paceline
