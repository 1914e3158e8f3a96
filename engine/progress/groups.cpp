#include "progress/groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "progress/operation_pool.hpp"

namespace paceline {
namespace {

// Whoever has the group may ask for its links as long as it likes; they end with the engine.
void forget_links(Group& group) {
  for (Member& member : group.members) member.link = nullptr;
}

}  // namespace

std::shared_ptr<Group> Groups::make(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                    std::chrono::duration<double> timeout, Plans plans) {
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
  set_plans(*group, std::move(plans));
  groups_[channel] = group;
  return group;
}

// Other ranks may hear of the segment before they make the group themselves. No epoch begins before all have heard from
// all.
void Groups::share_segment(Group& group, std::vector<int> machine) {
  std::erase_if(departed_segments_, [](const auto& segment) { return segment->abandoned(); });
  std::ranges::sort(machine);
  const auto place = std::ranges::find(machine, group.rank) - machine.begin();
  group.sharing = static_cast<int>(machine.size());
  group.segment = std::make_unique<SharedSegment>(arena_, static_cast<int>(place), std::move(machine));
  Header hello;
  hello.frame = Frame::hello;
  hello.channel = group.channel;
  hello.id = group.segment->offset();
  for (const int rank : group.segment->members()) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.link != nullptr && peers_.reaches(member.peer)) member.link->control(hello);
  }
}

void Groups::drop(Group& group) {
  if (!groups_.contains(group.channel)) return;
  // What is under way fails with the group on other ranks, too, and it is for the caller to say why.
  const bool under_way = operations_.any([&](const Operation& each) { return each.group == &group && !each.over(); });
  if (group.segment != nullptr) group.segment->end(under_way ? Ending::failed : Ending::left);
  operations_.fail_all({ErrorKind::aborted, "its group was closed"}, &group);
  close(group.channel, group, group.parted);
  if (!group.error) group.error = {ErrorKind::aborted, "the group is closed"};
  group.matcher.clear();
  if (group.segment != nullptr) {
    group.segment->depart();
    departed_segments_.push_back(std::move(group.segment));
  }
  const auto dropped = groups_.extract(group.channel);
  if (!group.send_rates.empty()) pace_links(group);
  forget_links(group);
}

// The goodbye comes after everything that this rank has sent: the others can do without it for as long as nothing needs
// it. A channel is forgotten once all have said so, and nothing more can come.
void Groups::close(std::uint64_t channel, const Group& group, const std::vector<int>& parted) {
  Closed closed{group.use == Group::Use::callers};
  Header goodbye;
  goodbye.frame = Frame::goodbye;
  goodbye.channel = channel;
  goodbye.tag = closed.left && !group.error ? 0 : kNothingNeeded;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.link == nullptr || !peers_.reaches(member.peer) || peers_[member.peer].left) continue;
    member.link->control(goodbye, {});
    if (std::ranges::find(parted, rank) == parted.end()) closed.peers.push_back(member.peer);
  }
  if (!closed.peers.empty()) closed_[channel] = std::move(closed);
}

void Groups::hear_last(std::uint64_t channel, int peer) {
  const auto found = closed_.find(channel);
  if (found == closed_.end()) return;
  std::erase(found->second.peers, peer);
  if (found->second.peers.empty()) closed_.erase(found);
}

void Groups::hear_last(int peer) {
  for (auto& [channel, closed] : closed_) std::erase(closed.peers, peer);
  std::erase_if(closed_, [](const auto& one) { return one.second.peers.empty(); });
}

void Groups::clear() {
  for (auto& [channel, group] : groups_) {
    if (!group->error) group->error = {ErrorKind::aborted, "the engine is closed"};
    group->matcher.clear();
    if (group->segment != nullptr) {
      group->segment->end(Ending::left);
      group->segment->depart();
    }
    group->segment.reset();
    forget_links(*group);
  }
  departed_segments_.clear();
  groups_.clear();
  closed_.clear();
}

const std::shared_ptr<Group>& Groups::find(std::uint64_t channel) const {
  static const std::shared_ptr<Group> none;
  const auto found = groups_.find(channel);
  return found == groups_.end() ? none : found->second;
}

std::vector<std::shared_ptr<Group>> Groups::all() const {
  std::vector<std::shared_ptr<Group>> groups;
  groups.reserve(groups_.size());
  for (const auto& [channel, group] : groups_) groups.push_back(group);
  return groups;
}

void Groups::set_plans(Group& group, Plans plans) {
  group.plans = std::move(plans);
  for (auto& [collective, list] : group.plans)
    for (Plan& plan : list) {
      plan.algorithm = operations_.events().keep(plan.name);
      plan.leader = group.segment != nullptr ? leader_of(plan, group.segment->members()) : -1;
    }
}

void Groups::set_pace(Group& group, double inbound, std::vector<double> outbound) {
  group.pace = std::isfinite(inbound) ? inbound : 0;
  group.send_rates = std::move(outbound);
  pace_links(group);
}

// Several groups may use the same link, and nobody knows which of them uses it next.
void Groups::pace_links(const Group& of) {
  for (const Member& member : of.members) {
    if (member.link == nullptr) continue;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    double fastest = 0;
    for (const auto& [channel, group] : groups_) {
      const int rank = group->rank_of(member.peer);
      if (rank < 0 || group->send_rates.empty()) continue;
      fastest = std::max(fastest, group->send_rates[static_cast<std::size_t>(rank)]);
      if (group->pace == 0) continue;
      least = std::min(least, group->pace);
      most = std::max(most, group->pace);
    }
    member.link->set_pace(least, most);
    member.link->set_send_rate(fastest > 0 ? fastest : std::numeric_limits<double>::infinity());
  }
}

}  // namespace paceline
