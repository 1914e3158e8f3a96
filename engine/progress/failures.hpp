// What goes wrong in a group: the first error wins, and reaches every rank of the group.
#pragma once

#include <cstdint>
#include <string>

#include "progress/active_operations.hpp"
#include "progress/first_error.hpp"
#include "progress/groups.hpp"
#include "progress/peers.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

class Failures {
 public:
  // description: what peers call this process.
  Failures(Peers& peers, Groups& groups, ActiveOperations& operations, const Whereabouts& whereabouts,
           const std::string& description)
      : peers_(peers), groups_(groups), operations_(operations), whereabouts_(whereabouts), description_(description) {}

  // The first error of this process; empty if there was none.
  const Error& first() const { return first_error_.error(); }

  // Fails the group here, and tells its other ranks.
  void fail(Group& group, const Error& error);
  // This rank leaves the group: if something is under way there, that fails on all ranks.
  void leave(Group& group);
  // A peer offers something in a group that this rank has left: it need not wait.
  void refuse(int handle, std::uint64_t channel);
  // Fails the group of an operation whose last step found something wrong.
  void fail_for_trouble(const Operation& operation);
  // Fails the group of an operation that waits for a rank that is lost.
  void fail_if_absent(const Operation& operation);
  // Fails a new group with a member that has died.
  void fail_if_dead(Group& group);
  // The link to this peer has ended: fails every group that needs it.
  void lose(int handle);

 private:
  // A rank that is lost and that this operation cannot do without; -1 if there is none.
  int lacking(const Operation& operation) const;
  Error explained(const Operation& operation) const;
  Error gone(const Group& group, int rank) const;
  Error gone(const Peer& peer, const std::string& name, const std::string& last) const;

  Peers& peers_;
  Groups& groups_;
  ActiveOperations& operations_;
  const Whereabouts& whereabouts_;
  const std::string& description_;
  FirstError first_error_;
};

}  // namespace paceline
