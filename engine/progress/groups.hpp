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
  // What arrives for a closed channel is thrown away.
  void close_channel(std::uint64_t channel) { closed_channels_.emplace(channel, false); }
  bool is_closed(std::uint64_t channel) const { return closed_channels_.contains(channel); }
  // Whether a caller of this rank has closed its group. A coordinator's own groups end by what all ranks agree on.
  bool was_left(std::uint64_t channel) const {
    const auto found = closed_channels_.find(channel);
    return found != closed_channels_.end() && found->second;
  }

  void set_plans(Group& group, Plans plans);
  // See Engine.
  void set_pace(Group& group, double inbound, std::vector<double> outbound);

 private:
  void say_goodbye(const Group& group);
  void share_segment(Group& group, std::vector<int> machine);
  void pace_links(const Group& of);

  Arena& arena_;
  Peers& peers_;
  ActiveOperations& operations_;
  const std::string& description_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Group>> groups_;
  std::unordered_map<std::uint64_t, bool> closed_channels_;        // see was_left
  std::vector<std::unique_ptr<SharedSegment>> departed_segments_;  // of groups that other ranks have yet to close
};

}  // namespace paceline
