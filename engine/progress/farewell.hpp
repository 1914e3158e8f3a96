// How this rank leaves: first its groups, once it knows whether all ranks agreed about their last collectives, and then
// its peers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "progress/active_operations.hpp"
#include "progress/failures.hpp"
#include "progress/peers.hpp"
#include "progress/waiting.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

class Farewell {
 public:
  // workspace: scratch memory that is free between two steps of operations.
  Farewell(Peers& peers, ActiveOperations& operations, Waiting& waiting, Whereabouts& whereabouts,
           const Failures& failures, std::span<std::byte> workspace)
      : peers_(peers),
        operations_(operations),
        waiting_(waiting),
        whereabouts_(whereabouts),
        failures_(failures),
        workspace_(workspace) {}

  // Does what Parting says before this rank leaves these groups. Returns the disagreement that no call has raised.
  Error part(Sleepers::Lock& lock, const std::vector<std::shared_ptr<Group>>& groups);
  // Says goodbye to all peers, with the first error of this process, and ends the links to them.
  void say_goodbye();

 private:
  Peers& peers_;
  ActiveOperations& operations_;
  Waiting& waiting_;
  Whereabouts& whereabouts_;
  const Failures& failures_;
  const std::span<std::byte> workspace_;
};

}  // namespace paceline
