#include "message/point_to_point.hpp"

#include "execute/group.hpp"
#include "link/ring.hpp"

namespace paceline {

void PointToPoint::begin() {
  context_.begin(*this, workspace_);
  const auto member = [this](int rank) -> const Member& { return group->members[static_cast<std::size_t>(rank)]; };
  const Link* link = peer >= 0 ? member(peer).link : nullptr;
  network_ = link != nullptr ? link->arena() == nullptr : !group->on_one_machine();
  if (sends()) {
    send_.header = context_.header;
    send_.header.length = bytes;
    send_.header.tag = tag;
    send_.data = data;
    send_.link = member(peer).link;
    send_.link->post(send_);
    return;
  }
  receive_.source = peer;
  receive_.tag = tag;
  receive_.point_to_point = true;
  receive_.dtype = what.dtype;
  receive_.to = data;
  receive_.length = bytes;
  patient_ = !network_ && bytes <= kLargestRecord;
  context_.post(receive_);
  trouble_ = context_.trouble;
}

bool PointToPoint::step() {
  if (receive_.state != Receive::State::here || context_.trouble) return false;
  const bool moved = context_.pull(receive_);
  trouble_ = context_.trouble;
  return moved;
}

bool PointToPoint::complete() const { return sends() ? send_.done : receive_.state == Receive::State::done; }

bool PointToPoint::has_work() const { return complete() || receive_.state == Receive::State::here; }

std::vector<int> PointToPoint::missing() const {
  if (sends()) return send_.done ? std::vector<int>{} : std::vector<int>{peer};
  if (receive_.state != Receive::State::posted && receive_.state != Receive::State::streaming) return {};
  if (!waits_for_any()) return {receive_.actual_source >= 0 ? receive_.actual_source : peer};
  std::vector<int> others;
  for (int rank = 0; rank < group->size(); ++rank)
    if (rank != group->rank) others.push_back(rank);
  return others;
}

void PointToPoint::end() {
  if (sender != nullptr) *sender = receive_.actual_source;
}

void PointToPoint::let_go(const Error&) {
  if (sends()) {
    if (!send_.done && (send_.queued || send_.offered)) send_.link->cancel(send_);
    return;
  }
  if (receive_.state == Receive::State::posted) group->matcher.forget(receive_);
  if (receive_.state == Receive::State::streaming) receive_.link->cancel(receive_);
  receive_.arrival.reset();
}

void PointToPoint::clear() {
  data = nullptr;
  bytes = 0;
  peer = -1;
  tag = 0;
  sender = nullptr;
  send_ = {};
  receive_.state = Receive::State::idle;
  receive_.actual_source = -1;
  receive_.filled = 0;
  receive_.arrival.reset();
  network_ = patient_ = false;
}

}  // namespace paceline
