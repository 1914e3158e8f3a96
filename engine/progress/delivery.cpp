#include "progress/delivery.hpp"

#include <utility>

namespace paceline {
namespace {

constexpr std::size_t kPooledArrivals = 64;
constexpr std::size_t kOrphanLimit = 65536;

}  // namespace

std::unique_ptr<Arrival> Delivery::new_arrival() {
  if (pool_.empty()) return std::make_unique<Arrival>();
  auto arrival = std::move(pool_.back());
  pool_.pop_back();
  return arrival;
}

void Delivery::recycle(std::unique_ptr<Arrival> arrival) {
  if (arrival && pool_.size() < kPooledArrivals) pool_.push_back(std::move(arrival));
}

void Delivery::deliver(std::unique_ptr<Arrival> arrival) {
  const Header& header = arrival->header;
  Peer& peer = peers_[arrival->peer];
  if (header.frame == Frame::goodbye && header.channel == 0) {
    peer.left = true;
    peer.before = decoded(arrival->payload);
    groups_.hear_last(arrival->peer);
    recycle(std::move(arrival));
    return;
  }
  if (header.frame == Frame::line) {
    whereabouts_.hear_line(peer, arrival->payload);
    recycle(std::move(arrival));
    return;
  }
  if (header.frame == Frame::question || header.frame == Frame::answer) {
    if (header.frame == Frame::question)
      questions_.hear_question(arrival->peer, header, arrival->payload);
    else
      questions_.hear_answer(arrival->peer, header, arrival->payload);
    recycle(std::move(arrival));
    return;
  }
  if (header.frame == Frame::inquiry || header.frame == Frame::waits) {
    if (header.frame == Frame::inquiry)
      culprits_.hear_question(arrival->peer);
    else
      culprits_.hear_answer(arrival->peer, arrival->payload);
    recycle(std::move(arrival));
    return;
  }
  const std::shared_ptr<Group> group = groups_.find(header.channel);
  if (group == nullptr) {
    if (groups_.is_closed(header.channel)) {
      if (header.frame == Frame::offer && groups_.was_left(header.channel))
        failures_.refuse(arrival->peer, header.channel);
      if (header.frame == Frame::goodbye) groups_.hear_last(header.channel, arrival->peer);
    } else if (early_.size() < kOrphanLimit) {
      early_.push_back(std::move(arrival));
    } else {
      missed_.emplace(header.channel, arrival->peer);
    }
    return;
  }
  const int from = group->rank_of(arrival->peer);
  if (from >= 0) deliver_to(*group, from, std::move(arrival));
}

void Delivery::deliver_early() {
  for (auto& arrival : std::exchange(early_, {})) deliver(std::move(arrival));
  for (const auto& [channel, peer] : std::exchange(missed_, {})) {
    if (const std::shared_ptr<Group> group = groups_.find(channel); group != nullptr)
      failures_.fail(*group,
                     {ErrorKind::aborted, peers_[peer].description + " sent more than " + std::to_string(kOrphanLimit) +
                                              " messages before this rank had made the group"});
    else if (!groups_.is_closed(channel))
      missed_.emplace(channel, peer);
  }
}

void Delivery::deliver_to(Group& group, int from, std::unique_ptr<Arrival> arrival) {
  const Header header = arrival->header;
  if (header.frame == Frame::abort) {
    // It is passed on: this process may end before the others hear from the rank that found out.
    if (const Error error = decoded(arrival->payload)) failures_.fail(group, error);
    return;
  }
  if (header.frame == Frame::goodbye) {
    group.parted.push_back(from);
    if (header.tag != kNothingNeeded) failures_.depart(group, from);
    return;
  }
  if (header.frame == Frame::hello) {
    Link& link = *group.members[static_cast<std::size_t>(from)].link;
    const int place = group.segment != nullptr ? group.segment->place_of(from) : -1;
    if (place < 0 || !group.segment->learn(place, link, header.id))
      failures_.fail(group, {ErrorKind::aborted, group.name_of(from) + " sent a garbled message over shared memory"});
    return;
  }
  if (header.frame == Frame::refusal) {
    if (group.error) return;
    group.heard(header, from);
    if (const auto wrong = group.hear_refusal(from, header.sequence, decoded(arrival->payload).message))
      failures_.fail(group, wrong);
    return;
  }
  if (header.frame == Frame::note) {
    if (!group.error) group.notes.push_back({from, header.tag, std::move(arrival->payload)});
    return;
  }
  peers_[arrival->peer].saw(header);
  if (group.error) return;
  group.heard(header, from);
  if (auto wrong = group.disagreement(header, from); !wrong.empty()) {
    failures_.fail(group, {ErrorKind::mismatch, wrong});
    return;
  }
  if (header.frame == Frame::status) {
    group.remember_status(header, from);
    return;
  }
  if (auto wrong = group.take(from, std::move(arrival)); !wrong.empty())
    failures_.fail(group, {ErrorKind::mismatch, wrong});
}

StreamSink* Delivery::expect(int peer, const Header& header) {
  const auto& group = groups_.find(header.channel);
  if (group == nullptr) return nullptr;
  const int from = group->rank_of(peer);
  Receive* receive = from < 0 ? nullptr : group->expect(header, from);
  if (receive == nullptr) return nullptr;
  peers_[peer].saw(header);
  return receive;
}

void Delivery::lost(int handle, const std::string& reason) {
  Peer& peer = peers_[handle];
  if (peer.lost) return;
  peers_.lose(handle, reason);
  wakeups_.remove(peer.link->descriptor());
  groups_.hear_last(handle);
  failures_.lose(handle);
}

void Delivery::garbled(int handle, const std::string& what) {
  peers_[handle].garbled = !peers_[handle].lost;
  lost(handle, what);
}

}  // namespace paceline
