// What arrives, what is missing, what went wrong: first error wins, and reaches every rank of the group.
#include <algorithm>
#include <thread>

#include "progress/engine.hpp"

namespace paceline {
namespace {

constexpr std::size_t kPooledArrivals = 64;
constexpr std::size_t kOrphanLimit = 65536;
constexpr auto kFarewell = std::chrono::milliseconds(100);

}  // namespace

std::unique_ptr<Arrival> Engine::new_arrival() {
  if (arrival_pool_.empty()) return std::make_unique<Arrival>();
  auto arrival = std::move(arrival_pool_.back());
  arrival_pool_.pop_back();
  return arrival;
}

void Engine::recycle(std::unique_ptr<Arrival> arrival) {
  if (arrival && arrival_pool_.size() < kPooledArrivals) arrival_pool_.push_back(std::move(arrival));
}

void Engine::deliver(std::unique_ptr<Arrival> arrival) {
  const Header& header = arrival->header;
  Peer& peer = peers_[arrival->peer];
  if (header.frame == Frame::goodbye) {
    peer.left = true;
    peer.before = decoded(arrival->payload);
    recycle(std::move(arrival));
    return;
  }
  if (header.frame == Frame::line) {
    hear_line(peer, arrival->payload);
    recycle(std::move(arrival));
    return;
  }
  const auto found = groups_.find(header.channel);
  if (found == groups_.end()) {
    if (!closed_channels_.contains(header.channel) && orphans_.size() < kOrphanLimit)
      orphans_.push_back(std::move(arrival));
    return;
  }
  const std::shared_ptr<Group> group = found->second;
  const int from = group->rank_of(arrival->peer);
  if (from >= 0) deliver_to(*group, from, std::move(arrival));
}

void Engine::deliver_to(Group& group, int from, std::unique_ptr<Arrival> arrival) {
  const Header header = arrival->header;
  if (header.frame == Frame::abort) {
    // Passed on: this process may end before the others hear from whoever found out.
    if (const Error error = decoded(arrival->payload)) fail_group(group, error);
    return;
  }
  if (header.frame == Frame::hello) {
    Link& link = *group.members[static_cast<std::size_t>(from)].link;
    const int place = group.segment != nullptr ? group.segment->place_of(from) : -1;
    if (place < 0 || !group.segment->learn(place, link, header.id))
      fail_group(group, {ErrorKind::aborted, group.name_of(from) + " sent a garbled message over shared memory"});
    return;
  }
  if (header.frame == Frame::note) {
    if (!group.error) group.notes.push_back({from, header.tag, std::move(arrival->payload)});
    return;
  }
  Peer& peer = peers_[arrival->peer];
  peer.last_seen = header;
  peer.seen = true;
  if (group.error) return;
  group.heard(header, from);
  if (auto wrong = group.disagreement(header, from); !wrong.empty()) {
    fail_group(group, {ErrorKind::mismatch, wrong});
    return;
  }
  if (header.frame == Frame::status) {
    group.remember_status(header, from);
    return;
  }
  if (auto wrong = group.take(from, std::move(arrival)); !wrong.empty())
    fail_group(group, {ErrorKind::mismatch, wrong});
}

StreamSink* Engine::expect(int peer, const Header& header) {
  const auto found = groups_.find(header.channel);
  if (found == groups_.end()) return nullptr;
  const int from = found->second->rank_of(peer);
  Receive* receive = from < 0 ? nullptr : found->second->expect(header, from);
  if (receive == nullptr) return nullptr;
  peers_[peer].last_seen = header;
  peers_[peer].seen = true;
  return receive;
}

void Engine::fail_group(Group& group, const Error& error) {
  if (group.error) return;
  group.error = error;
  first_error_.note(error);
  for (const auto& operation : active_) {
    if (operation->group != &group || operation->over()) continue;
    operation->group_failed(error);
  }
  group.matcher.clear();
  Header header;
  header.frame = Frame::abort;
  header.channel = group.channel;
  const std::string payload = encoded(error);
  header.length = payload.size();
  for (const Member& member : group.members) {
    if (!peers_.reaches(member.peer)) continue;
    member.link->control(header, payload);
  }
  // This process may be about to end: the others must hear why before they see it gone.
  const auto deadline = Clock::now() + kFarewell;
  for (const Member& member : group.members) {
    if (!peers_.reaches(member.peer)) continue;
    while (!member.link->flush() && Clock::now() < deadline) std::this_thread::yield();
  }
}

Error Engine::gone(const Group& group, int rank, const std::string& reason) const {
  const Peer& peer = peers_[group.members[static_cast<std::size_t>(rank)].peer];
  return gone(peer, group.name_of(rank), last_heard(group, rank), reason);
}

// First error wins, also where ranks are not in the same groups: who goes because of an error is not the one to blame.
Error Engine::gone(const Peer& peer, const std::string& name, const std::string& last,
                   const std::string& reason) const {
  std::string text = name + (peer.left ? " has left the job" : " died");
  if (const std::string link = peer.left ? std::string() : peer.link->condition(); !link.empty()) {
    text += " (" + (reason.empty() ? reason : reason + "; ") + link + ")";
  } else if (!reason.empty()) {
    text += " (" + reason + ")";
  }
  text += last.empty() ? "; it had not been heard of" : "; last heard of in " + last;
  const Error before = peer.left ? peer.before : first_error_.cause_of_failure(peer.description);
  if (!before) return {ErrorKind::peer_lost, text, peer.description};
  return {ErrorKind::peer_lost, before.message + "; after that " + text,
          before.culprit.empty() ? peer.description : before.culprit};
}

// A rank whose memory cannot be read need not have died: it may have said goodbye and given its memory back.
Error Engine::explained(const Operation& operation) const {
  const Group& group = *operation.group;
  if (operation.trouble().kind == ErrorKind::peer_lost) {
    for (int rank = 0; rank < group.size(); ++rank) {
      const Member& member = group.members[static_cast<std::size_t>(rank)];
      if (member.peer >= 0 && peers_[member.peer].left && operation.involves(rank)) return gone(group, rank, "");
    }
  }
  return operation.trouble();
}

void Engine::lost(int handle, const std::string& reason) {
  Peer& peer = peers_[handle];
  if (peer.lost) return;
  peer.lost = true;
  absent_peers_ = true;
  wakeups_.remove(peer.link->descriptor());
  if (!peer.left) {
    const auto last = peer.seen ? describe(peer.last_seen.fingerprint(), peer.last_seen.sequence) : std::string();
    first_error_.note(gone(peer, peer.description, last, reason));
  }
  std::vector<std::shared_ptr<Group>> groups;
  groups.reserve(groups_.size());
  for (const auto& [channel, group] : groups_) groups.push_back(group);
  for (const auto& group : groups) {
    const int rank = group->rank_of(handle);
    if (rank < 0) continue;
    if (!peer.left) {
      fail_group(*group, gone(*group, rank, reason));
      continue;
    }
    // A coordinator knows who is still needed.
    const bool needed = group->use != Group::Use::control && std::ranges::any_of(active_, [&](const auto& operation) {
                          return operation->group == group.get() && !operation->over() && operation->involves(rank);
                        });
    if (needed) fail_group(*group, gone(*group, rank, reason));
  }
}

void Engine::fail_with_absent_peers(Operation& operation) {
  Group& group = *operation.group;
  if (operation.over() || group.use == Group::Use::control) return;
  for (const int rank : operation.missing()) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.peer < 0 || !peers_[member.peer].lost) continue;
    fail_group(group, gone(group, rank, ""));
    return;
  }
}

// A rank that has waited long says where it is: if another is elsewhere in the same collective, both sides learn of it.
void Engine::probe(Operation& operation) {
  if (is_point_to_point(operation.what.collective)) return;
  Group& group = *operation.group;
  Header header;
  header.frame = Frame::status;
  header.channel = group.channel;
  header.count = operation.what.count;
  header.sequence = operation.sequence;
  header.root = operation.what.root;
  header.collective = operation.what.collective;
  header.dtype = operation.what.dtype;
  header.op = operation.what.op;
  for (const Member& member : group.members) {
    if (!peers_.reaches(member.peer)) continue;
    member.link->control(header);
  }
}

}  // namespace paceline
