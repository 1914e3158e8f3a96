#include "progress/failures.hpp"

#include <algorithm>
#include <thread>

#include "delays/delays.hpp"

namespace paceline {
namespace {

constexpr auto kFarewell = std::chrono::milliseconds(100);

}  // namespace

void Failures::fail(Group& group, const Error& error) {
  if (group.error) return;
  group.error = error;
  first_error_.note(error);
  if (group.segment != nullptr) group.segment->end(Ending::failed);
  for (const auto& operation : operations_) {
    if (operation->group != &group || operation->over()) continue;
    operation->group_failed(error);
    group.raised = true;
  }
  group.matcher.clear();
  delay(Between::failure_and_word);
  Header header;
  header.frame = Frame::abort;
  tell(group, header, error);
}

void Failures::refuse_call(Group& group, const std::string& call, const std::string& reason) {
  Header header;
  header.frame = Frame::refusal;
  header.collective = Collective::none;
  header.sequence = group.begin({0, -1, Collective::none});
  const std::string number = "#" + std::to_string(header.sequence);
  tell(group, header, {ErrorKind::mismatch, call + " " + number + ": " + reason});
  if (const Error refused = group.refused_elsewhere()) fail(group, refused);
}

void Failures::tell(const Group& group, Header header, const Error& error) {
  header.channel = group.channel;
  const std::string payload = encoded(error);
  header.length = payload.size();
  for (const Member& member : group.members)
    if (peers_.reaches(member.peer)) member.link->control(header, payload);
  // This process may be about to end: the others must hear why before they see it gone.
  const auto deadline = Clock::now() + kFarewell;
  for (const Member& member : group.members) {
    if (!peers_.reaches(member.peer)) continue;
    while (!member.link->flush() && Clock::now() < deadline) std::this_thread::yield();
  }
}

// A coordinator says itself what becomes of its requests.
void Failures::leave(Group& group) {
  if (group.use != Group::Use::callers) return;
  for (const auto& operation : operations_) {
    if (operation->group != &group || operation->over()) continue;
    return fail(group, {ErrorKind::aborted,
                        group.name_of(group.rank) + " has closed the group while " + operation->description() +
                            " was under way",
                        description_});
  }
}

void Failures::refuse(int handle, std::uint64_t channel) {
  if (!peers_.reaches(handle)) return;
  Header header;
  header.frame = Frame::abort;
  header.channel = channel;
  const std::string payload = encoded({ErrorKind::peer_lost, description_ + " has left the group", description_});
  header.length = payload.size();
  peers_[handle].link->control(header, payload);
}

void Failures::fail_for_trouble(const Operation& operation) { fail(*operation.group, explained(operation)); }

// A rank whose memory cannot be read need not have died: it may have said goodbye and given its memory back.
Error Failures::explained(const Operation& operation) const {
  const Group& group = *operation.group;
  if (operation.trouble().kind == ErrorKind::peer_lost) {
    for (int rank = 0; rank < group.size(); ++rank) {
      const Member& member = group.members[static_cast<std::size_t>(rank)];
      if (member.peer >= 0 && peers_[member.peer].left && operation.involves(rank)) return gone(group, rank);
    }
  }
  return operation.trouble();
}

void Failures::fail_if_absent(const Operation& operation) {
  Group& group = *operation.group;
  if (operation.over() || group.use == Group::Use::control) return;
  if (operation.trouble()) return fail_for_trouble(operation);  // such as a wrong message of a rank that has left
  if (const int rank = lacking(operation); rank >= 0) fail(group, gone(group, rank));
}

int Failures::lacking(const Operation& operation) const {
  const Group& group = *operation.group;
  const auto is_lost = [&](int rank) {
    const int peer = group.members[static_cast<std::size_t>(rank)].peer;
    return peer >= 0 && (peers_[peer].lost || has_departed(group, rank));
  };
  const auto ranks = operation.missing();
  const auto found = std::ranges::find_if(ranks, is_lost);
  if (found == ranks.end() || (operation.waits_for_any() && !std::ranges::all_of(ranks, is_lost))) return -1;
  return *found;
}

bool Failures::has_departed(const Group& group, int rank) const {
  const auto found = departed_.find(group.channel);
  return found != departed_.end() && std::ranges::find(found->second, rank) != found->second.end();
}

void Failures::depart(Group& group, int rank) {
  departed_[group.channel].push_back(rank);
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (operations_[i]->group == &group) fail_if_absent(*operations_[i]);
}

void Failures::fail_if_dead(Group& group) {
  for (int rank = 0; rank < group.size(); ++rank) {
    const int handle = group.members[static_cast<std::size_t>(rank)].peer;
    if (handle >= 0 && peers_[handle].lost && !peers_[handle].left) fail(group, gone(group, rank));
  }
}

void Failures::lose(int handle) {
  const Peer& peer = peers_[handle];
  if (!peer.left) first_error_.note(gone(peer, peer.description, peer.last_operation()));
  for (const auto& group : groups_.all()) {
    const int rank = group->rank_of(handle);
    if (rank < 0) continue;
    // A rank that has left in good order fails only what still needs it. A coordinator knows whom it needs.
    const auto needs = [&](const Operation& operation) {
      return operation.group == group.get() && !operation.over() && operation.involves(rank) && lacking(operation) >= 0;
    };
    if (!peer.left || (group->use != Group::Use::control && operations_.any(needs))) fail(*group, gone(*group, rank));
  }
}

Error Failures::fate(int handle) const {
  const Peer& peer = peers_[handle];
  return peer.lost || peer.left ? gone(peer, peer.description, peer.last_operation()) : Error{};
}

Error Failures::gone(const Group& group, int rank) const {
  const Peer& peer = peers_[group.members[static_cast<std::size_t>(rank)].peer];
  if (!peer.lost && !peer.left)
    return {ErrorKind::peer_lost, group.name_of(rank) + " has left the group", peer.description};
  return gone(peer, group.name_of(rank), whereabouts_.last_heard(group, rank), &group);
}

bool Failures::has_member(const Group& group, const std::string& description) const {
  return description == description_ || std::ranges::any_of(group.members, [&](const Member& member) {
           return member.peer >= 0 && peers_[member.peer].description == description;
         });
}

// The first error wins also where ranks are not in the same groups: a rank that ends because of an error is not to
// blame.
Error Failures::gone(const Peer& peer, const std::string& name, const std::string& last, const Group* among) const {
  std::string text = name;
  text += peer.left ? " has left the job" : peer.garbled ? " sent " + description_ + " " + peer.why : " died";
  const std::string reason = peer.garbled ? std::string() : peer.why;
  const std::string link = peer.left ? std::string() : peer.link->condition();
  const std::string between = reason.empty() || link.empty() ? "" : "; ";
  if (!reason.empty() || !link.empty()) text += " (" + reason + between + link + ")";
  if (!last.empty()) text += "; last heard of in " + last;
  const Error before = peer.left ? peer.before : first_error_.cause_of_failure(peer.description);
  if (!before) return {ErrorKind::peer_lost, text, peer.description};
  if (among != nullptr && !peer.left && !before.culprit.empty() && !has_member(*among, before.culprit))
    return {ErrorKind::peer_lost, text + "; before that, " + before.message, peer.description};
  return {ErrorKind::peer_lost, before.message + "; after that " + text,
          before.culprit.empty() ? peer.description : before.culprit};
}

}  // namespace paceline
