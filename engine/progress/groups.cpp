// Groups: made over the links that there are, and closed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "progress/engine.hpp"

namespace paceline {

std::shared_ptr<Group> Engine::add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                         std::chrono::duration<double> timeout, Plans plans) {
  const auto lock = enter();
  return make_group(channel, rank, peers, timeout, std::move(plans));
}

std::shared_ptr<Group> Engine::make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                          std::chrono::duration<double> timeout, Plans plans) {
  if (closed_) throw Failure(ErrorKind::aborted, "the engine is closed");
  if (groups_.contains(channel)) throw Failure(ErrorKind::invalid, "this channel is already in use");
  auto group = std::make_shared<Group>();
  group->pool = std::make_shared<OperationPool>();
  group->channel = channel;
  group->rank = rank;
  group->timeout = timeout;
  std::vector<int> machine{rank};
  bool any_shm = false;
  bool any_tcp = false;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Member member;
    if (static_cast<int>(i) == rank) {
      member.description = description_;
    } else {
      if (!peers_.has(peers[i])) throw Failure(ErrorKind::invalid, "no link to rank " + std::to_string(i));
      const Peer& peer = peers_[peers[i]];
      member = {peers[i], peer.link.get(), peer.description};
      const bool here = peer.link->name() == "shm";
      (here ? any_shm : any_tcp) = true;
      if (here) machine.push_back(static_cast<int>(i));
    }
    group->members.push_back(std::move(member));
  }
  group->link_name = any_shm && any_tcp ? "mixed" : any_tcp ? "tcp" : any_shm ? "shm" : "self";
  if (any_shm) share_segment(*group, std::move(machine));
  adopt(*group, std::move(plans));
  groups_[channel] = group;
  // What has come for this group before it was made here.
  std::vector<std::unique_ptr<Arrival>> waiting;
  std::swap(waiting, orphans_);
  for (auto& arrival : waiting) deliver(std::move(arrival));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (static_cast<int>(i) == rank) continue;
    const Peer& peer = peers_[peers[i]];
    if (peer.lost && !peer.left) fail_group(*group, gone(*group, static_cast<int>(i), ""));
  }
  return group;
}

void Engine::adopt(Group& group, Plans plans) {
  group.plans = std::move(plans);
  for (auto& [collective, list] : group.plans)
    for (Plan& plan : list) {
      plan.algorithm = events_.keep(plan.name);
      plan.leader = group.segment != nullptr ? leader_of(plan, group.segment->members()) : -1;
    }
}

void Engine::set_plans(Group& group, Plans plans) {
  auto lock = enter();
  adopt(group, std::move(plans));
}

// Other ranks may hear of the segment before they make the group themselves. No epoch begins before all have heard from
// all.
void Engine::share_segment(Group& group, std::vector<int> machine) {
  std::erase_if(departed_segments_, [](const auto& segment) { return segment->abandoned(); });
  std::ranges::sort(machine);
  const auto place = std::ranges::find(machine, group.rank) - machine.begin();
  group.segment = std::make_unique<SharedSegment>(*arena_, static_cast<int>(place), std::move(machine));
  Header hello;
  hello.frame = Frame::hello;
  hello.channel = group.channel;
  hello.id = group.segment->offset();
  for (const int rank : group.segment->members()) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.link != nullptr && peers_.reaches(member.peer)) member.link->control(hello);
  }
}

void Engine::remove_group(Group& group) {
  const auto lock = enter();
  drop_group(group);
}

void Engine::drop_group(Group& group) {
  if (!groups_.contains(group.channel)) return;
  for (const auto& operation : active_)
    if (operation->group == &group) operation->fail({ErrorKind::aborted, "its group was closed"});
  retire();
  if (!group.error) group.error = {ErrorKind::aborted, "the group is closed"};
  group.matcher.clear();
  if (group.segment != nullptr) {
    group.segment->depart();
    departed_segments_.push_back(std::move(group.segment));
  }
  closed_channels_.insert(group.channel);
  const auto dropped = groups_.extract(group.channel);
  if (group.pace != 0) pace_links(group);
}

void Engine::abort(Group& group, const std::string& reason) {
  auto lock = enter();
  if (closed_) return;
  fail_group(group, {ErrorKind::aborted, group.name_of(group.rank) + " aborted: " + reason, description_});
  retire();
}

void Engine::set_pace(Group& group, double bytes_per_second) {
  auto lock = enter();
  group.pace = std::isfinite(bytes_per_second) ? bytes_per_second : 0;
  pace_links(group);
}

// Groups may go over the same link, and which of them does so next is not known.
void Engine::pace_links(const Group& of) {
  for (const Member& member : of.members) {
    if (member.link == nullptr) continue;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const auto& [channel, group] : groups_) {
      if (group->pace == 0 || group->rank_of(member.peer) < 0) continue;
      least = std::min(least, group->pace);
      most = std::max(most, group->pace);
    }
    member.link->set_pace(least, most);
  }
}

void Engine::set_timeout(Group& group, std::chrono::duration<double> timeout) {
  auto lock = enter();
  group.timeout = timeout;
}

}  // namespace paceline
