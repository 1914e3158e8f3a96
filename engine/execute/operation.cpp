#include "execute/operation.hpp"

#include <algorithm>

#include "execute/group.hpp"

namespace paceline {

void Operation::start(Group& owner, std::span<std::byte> workspace) {
  group = &owner;
  workspace_ = workspace;
  state_ = State::running;
  begin();
}

Header Operation::header() const {
  Header header;
  header.channel = group->channel;
  header.count = what.count;
  header.sequence = sequence;
  header.root = what.root;
  header.collective = what.collective;
  header.dtype = what.dtype;
  header.op = what.op;
  header.codec = what.codec;
  return header;
}

void Operation::finish() {
  state_ = State::done;
  end();
}

void Operation::fail(const Error& error) {
  if (over()) return;
  if (state_ == State::running) let_go(error);
  error_ = error;
  state_ = State::failed;
}

void Operation::postpone(Clock::time_point from, Clock::time_point to, Clock::duration usual) {
  const auto pause = to - std::max(from, started) - usual;
  if (pause <= pause.zero()) return;
  started += pause;
  if (deadline != Clock::time_point::max()) deadline += pause;
}

void Operation::reset() {
  clear();
  what = {};
  sequence = 0;
  id = 0;
  notify = false;
  waiter = 0;
  large = -1;
  wake = Clock::time_point::max();
  rest = Rest::adaptive;
  group = nullptr;
  state_ = State::idle;
  if (error_) error_ = {};
  if (trouble_) trouble_ = {};
}

bool Operation::involves(int rank) const {
  const auto ranks = missing();
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace paceline
