// The groups of an engine: made over the links that there are, found by their channels, and dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "execute/group.hpp"
#include "progress/active_operations.hpp"
#include "progress/peers.hpp"

namespace paceline {

class Groups {
 public:
  // `description` is this process's own, see Engine.
  Groups(Arena& arena, Peers& peers, ActiveOperations& operations, const std::string& description)
      : arena_(arena), peers_(peers), operations_(operations), description_(description) {}

  // Throws Failure (invalid) if the channel is in use, or a handle in `peers` has no link. The entry of `peers` at
  // `rank`, which is this rank itself, is not looked at.
  std::shared_ptr<Group> make(std::uint64_t channel, int rank, const std::vector<int>& peers,
                              std::chrono::duration<double> timeout, Plans plans);
  void drop(Group& group);
  // Drops all groups, and the segments that other ranks have yet to leave.
  void clear();

  // Null if there is none.
  const std::shared_ptr<Group>& find(std::uint64_t channel) const;
  std::vector<std::shared_ptr<Group>> all() const;
  // Closes the channel of a group that this rank has not made and never will, which would be like `group`.
  void close_channel(std::uint64_t channel, const Group& group) { close(channel, group, {}); }
  // Whether more may arrive for a channel that this rank has closed. It is thrown away.
  bool is_closed(std::uint64_t channel) const { return closed_.contains(channel); }
  // Whether a caller of this rank has closed its group. A coordinator's own groups end by what all ranks agree on.
  bool was_left(std::uint64_t channel) const {
    const auto found = closed_.find(channel);
    return found != closed_.end() && found->second.left;
  }
  // How many channels this rank has closed that others have not.
  std::size_t closing() const { return closed_.size(); }
  // Nothing more will come from this peer: for a channel that is closed here, or at all.
  void hear_last(std::uint64_t channel, int peer);
  void hear_last(int peer);

  void set_plans(Group& group, Plans plans);
  // See Engine.
  void set_pace(Group& group, double inbound, std::vector<double> outbound);

 private:
  struct Closed {
    bool left = false;            // see was_left
    std::vector<int> peers = {};  // that have yet to close it
  };

  // parted: the ranks that have closed the channel already.
  void close(std::uint64_t channel, const Group& group, const std::vector<int>& parted);
  void share_segment(Group& group, std::vector<int> machine);
  void pace_links(const Group& of);

  Arena& arena_;
  Peers& peers_;
  ActiveOperations& operations_;
  const std::string& description_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Group>> groups_;
  std::unordered_map<std::uint64_t, Closed> closed_;
  std::vector<std::unique_ptr<SharedSegment>> departed_segments_;  // of groups that other ranks have yet to close
};

}  // namespace paceline
