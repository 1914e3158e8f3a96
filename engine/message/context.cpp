#include "message/context.hpp"

#include <algorithm>

#include "calibration/messages.hpp"
#include "execute/group.hpp"

namespace paceline {

void Context::begin(const Operation& operation, std::span<std::byte> scratch) {
  group = operation.group;
  header = operation.header();
  workspace = scratch;
  read_remotely = false;
  trouble = {};
}

bool Context::stands(const Receive& receive) const {
  return receive.arrival->header.frame != Frame::offer || !group->has_ended(receive.actual_source);
}

bool Context::read(Receive& receive, std::size_t offset, std::byte* data, std::size_t size) {
  if (!stands(receive)) return false;
  const int failure = receive.link->read(*receive.arrival, offset, data, size);
  read_remotely = true;
  if (!stands(receive)) return false;
  if (failure == 0) return true;
  say(group->unreadable(receive.actual_source, failure));
  return false;
}

void Context::refuse_garbled(int peer, std::size_t bytes, std::size_t count) {
  say({ErrorKind::peer_lost,
       group->name_of(peer) + " sent " + std::to_string(bytes) + " bytes that are no " +
           std::string(kCodecNames[static_cast<std::size_t>(program->codec)]) + " of " + std::to_string(count) +
           " elements",
       group->members[static_cast<std::size_t>(peer)].description});
}

bool Context::pull(Receive& receive) {
  const std::size_t size = std::min(calibration::kStepBytes, receive.length - receive.filled);
  if (!read(receive, receive.filled, receive.to + receive.filled, size)) return false;
  receive.advance(size);
  if (receive.state == Receive::State::done) release(receive);
  return true;
}

void Context::release(Receive& receive) {
  if (receive.arrival->header.frame == Frame::offer) receive.link->acknowledge(*receive.arrival);
  receive.arrival.reset();
  receive.state = Receive::State::done;
}

void Context::post(Receive& receive) {
  receive.state = Receive::State::posted;
  if (auto arrival = group->matcher.find_arrival(receive)) {
    if (auto wrong = group->meet(receive, std::move(arrival)); !wrong.empty()) say({ErrorKind::mismatch, wrong});
  } else {
    group->matcher.wait(receive);
  }
}

}  // namespace paceline
