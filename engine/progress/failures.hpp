// What goes wrong in a group: the first error wins, and reaches every rank of the group.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

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
  // See Engine::refuse.
  void refuse_call(Group& group, const std::string& call, const std::string& reason);
  // Fails the group of an operation whose last step found something wrong.
  void fail_for_trouble(const Operation& operation);
  // Fails the group of an operation that waits for a rank that is lost or has departed.
  void fail_if_absent(const Operation& operation);
  // A member has closed the group and lives on: fails the group once an operation needs that member.
  void depart(Group& group, int rank);
  // This rank has closed the group, too.
  void forget(const Group& group) { departed_.erase(group.channel); }
  // Whether an operation of this group may wait for a rank that is lost or has departed.
  bool may_lack(const Group& group) const {
    return peers_.any_lost() || (!departed_.empty() && departed_.contains(group.channel));
  }
  // Fails a new group with a member that has died.
  void fail_if_dead(Group& group);
  // The link to this peer has ended: fails every group that needs it.
  void lose(int handle);
  // What has become of a peer; no error while it is there.
  Error fate(int handle) const;

 private:
  // Sends the error to the other members, which hear it even if this process ends now.
  void tell(const Group& group, Header header, const Error& error);
  bool has_departed(const Group& group, int rank) const;
  // A rank that is lost, or has departed, and that this operation cannot do without; -1 if there is none.
  int lacking(const Operation& operation) const;
  Error explained(const Operation& operation) const;
  Error gone(const Group& group, int rank) const;
  // `among`: the group in which it is missed, where it is one.
  Error gone(const Peer& peer, const std::string& name, const std::string& last, const Group* among = nullptr) const;
  bool has_member(const Group& group, const std::string& description) const;

  Peers& peers_;
  Groups& groups_;
  ActiveOperations& operations_;
  const Whereabouts& whereabouts_;
  const std::string& description_;
  FirstError first_error_;
  std::unordered_map<std::uint64_t, std::vector<int>> departed_;  // by channel
};

}  // namespace paceline
