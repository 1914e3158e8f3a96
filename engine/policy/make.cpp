#include "policy/make.hpp"

#include "failure/error.hpp"
#include "policy/board.hpp"
#include "policy/cycle.hpp"
#include "policy/graph.hpp"
#include "policy/switching.hpp"

namespace paceline {

std::size_t boards_of(const std::string& name) {
  if (name == "switching") return 2;
  return name == "board" || name == "graph" ? 1 : 0;
}

bool takes_back(const std::string& name) { return name == "graph" || name == "switching"; }

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options, const Seat& seat,
                                    const std::vector<BoardMemory*>& boards) {
  if (seat.rank < 0 || seat.rank >= seat.size())
    throw Failure(ErrorKind::invalid,
                  "rank " + std::to_string(seat.rank) + " is not in a group of " + std::to_string(seat.size()));
  if (boards_of(name) != boards.size())
    throw Failure(ErrorKind::invalid, "the policy " + name + " takes " + std::to_string(boards_of(name)) +
                                          " boards, not " + std::to_string(boards.size()));
  if (name == "board") return std::make_unique<Board>(options, seat, *boards[0]);
  if (name == "graph") return std::make_unique<Graph>(options, seat, *boards[0]);
  if (options.sleep_every == 0) throw Failure(ErrorKind::invalid, "sleep_every must be at least 1 cycle, got 0");
  if (!(options.cycle_seconds >= 0))
    throw Failure(ErrorKind::invalid,
                  "a cycle must take 0 seconds or more, got " + std::to_string(options.cycle_seconds));
  if (name == "switching") return std::make_unique<Switching>(options, seat, *boards[0], *boards[1]);
  if (name == "cycle") return std::make_unique<Cycle>(options, seat, Cycle::Remedy::none);
  if (name == "global_sleep") return std::make_unique<Cycle>(options, seat, Cycle::Remedy::global_sleep);
  if (name == "nonblocking") return std::make_unique<Cycle>(options, seat, Cycle::Remedy::nonblocking);
  throw Failure(ErrorKind::invalid,
                "no such policy: " + name + "; there are board, graph, cycle, global_sleep and nonblocking");
}

}  // namespace paceline
