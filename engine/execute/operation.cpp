#include "execute/operation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "execute/group.hpp"
#include "kernel/reduce.hpp"

namespace paceline {
namespace {

constexpr std::size_t kSlice = std::size_t{1} << 20;           // bytes moved per step
constexpr std::size_t kCombineBlock = std::size_t{128} << 10;  // bytes per input and pass, to stay in cache

}  // namespace

void Operation::reset() {
  what = {};
  sequence = 0;
  id = 0;
  notify = false;
  waiter = 0;
  group = nullptr;
  program.clear();
  scratch.clear();
  state_ = State::idle;
  error_ = {};
  trouble_ = {};
  read_remotely_ = false;
  stage_ = 0;
  posted_ = false;
  sends_.clear();
  receives_.clear();
  combining_.clear();
}

void Operation::start(Group& owner, std::span<std::byte> workspace) {
  group = &owner;
  workspace_ = workspace;
  inner_fold_ = program.fold;
  inner_fold_.divisor = 1;
  std::size_t sends = 0;
  std::size_t receives = 0;
  for (const Action& action : program.actions) {
    sends += action.kind == Action::Kind::send ? 1 : 0;
    receives += action.kind == Action::Kind::receive ? 1 : 0;
  }
  for (const Input& input : program.inputs) receives += input.peer >= 0 ? 1 : 0;
  sends_.resize(sends);  // links keep pointers to these: they never move
  receives_.resize(receives);
  sends_used_ = receives_used_ = stage_receives_ = 0;
  state_ = State::running;
  if (stage_ < program.stage_ends.size()) post_stage();
}

Receive& Operation::next_receive(int peer, std::int32_t tag, std::byte* to, std::size_t bytes) {
  Receive& receive = receives_[receives_used_++];
  receive.source = peer;
  receive.sequence = sequence;
  receive.tag = tag;
  receive.point_to_point = is_point_to_point(what.collective);
  receive.to = to;
  receive.length = bytes;
  return receive;
}

void Operation::post_receive(Receive& receive) {
  receive.state = Receive::State::posted;
  if (auto arrival = group->matcher.find_arrival(receive)) {
    if (auto wrong = group->meet(receive, std::move(arrival)); !wrong.empty() && !trouble_)
      trouble_ = {ErrorKind::mismatch, wrong};
  } else {
    group->matcher.wait(receive);
  }
}

void Operation::post_combine(const Action& action) {
  Combining work{&action, receives_used_, 0, true};
  for (std::uint32_t i = 0; i < action.inputs; ++i) {
    const Input& input = program.inputs[action.first_input + i];
    if (input.peer < 0) continue;
    const Link& link = *group->members[static_cast<std::size_t>(input.peer)].link;
    work.in_place = work.in_place && (link.readable() || action.bytes <= link.eager_limit());
    next_receive(input.peer, input.tag, action.to, action.bytes);
    ++work.receives;
  }
  for (std::size_t i = 0; i < work.receives && work.in_place; ++i) {
    Receive& receive = receives_[work.first_receive + i];
    receive.in_place = true;
    post_receive(receive);
  }
  combining_.push_back(work);
}

void Operation::post_stage() {
  combining_.clear();
  stage_receives_ = receives_used_;
  for (std::uint32_t i = stage_begin(); i < program.stage_ends[stage_]; ++i) {
    const Action& action = program.actions[i];
    switch (action.kind) {
      case Action::Kind::copy: std::memmove(action.to, action.from, action.bytes); break;
      case Action::Kind::scale:
      case Action::Kind::divide: {
        const DType dtype = program.fold.dtype;
        const std::size_t count = action.bytes / size_of(dtype);
        if (action.kind == Action::Kind::scale) {
          kernels().scale(dtype, action.to, action.from, count, action.factor);
        } else {
          kernels().divide(dtype, action.to, action.to, count, action.factor);
        }
        break;
      }
      case Action::Kind::send: {
        Send& send = sends_[sends_used_++];
        send.header.channel = group->channel;
        send.header.length = action.bytes;
        send.header.count = what.count;
        send.header.sequence = sequence;
        send.header.tag = action.tag;
        send.header.root = what.root;
        send.header.collective = what.collective;
        send.header.dtype = what.dtype;
        send.header.op = what.op;
        send.data = action.from;
        send.link = group->members[static_cast<std::size_t>(action.peer)].link;
        send.link->post(send);
        break;
      }
      case Action::Kind::receive: post_receive(next_receive(action.peer, action.tag, action.to, action.bytes)); break;
      case Action::Kind::combine: post_combine(action); break;
    }
  }
  posted_ = true;
}

bool Operation::read(Receive& receive, std::size_t offset, std::byte* data, std::size_t size) {
  const int failure = receive.link->read(*receive.arrival, offset, data, size);
  read_remotely_ = true;
  if (failure == 0) return true;
  if (!trouble_) {
    trouble_ = {ErrorKind::peer_lost, group->name_of(receive.actual_source) +
                                          " died: its memory cannot be read any more (" + std::strerror(failure) + ")"};
  }
  return false;
}

// Takes in the next part of an offered message; true once all of it is here.
bool Operation::pull(Receive& receive) {
  const std::size_t size = std::min(kSlice, receive.length - receive.filled);
  if (!read(receive, receive.filled, receive.to + receive.filled, size)) return false;
  receive.advance(size);
  if (receive.state == Receive::State::done) release(receive);
  return true;
}

void Operation::release(Receive& receive) {
  if (receive.arrival->header.frame == Frame::offer) receive.link->acknowledge(*receive.arrival);
  receive.arrival.reset();
  receive.state = Receive::State::done;
}

const std::byte* Operation::locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block) {
  if (receive.arrival->header.frame == Frame::eager) return receive.arrival->payload.data() + offset;
  return read(receive, offset, scratch_block, size) ? scratch_block : nullptr;
}

// All inputs in one pass, block by block: each block is read once from every peer and written once.
bool Operation::combine_in_place(Combining& work) {
  const Action& action = *work.action;
  const auto receives = std::span(receives_).subspan(work.first_receive, work.receives);
  if (!std::ranges::all_of(receives, [](const Receive& r) { return r.state == Receive::State::here; })) return false;
  if (program.combine_after_sends && !sends_done()) return false;
  const std::size_t per_input = workspace_.size() / std::max<std::size_t>(1, work.receives);
  const std::size_t block = std::min(kCombineBlock, per_input / 64 * 64);
  const std::size_t end = std::min(action.bytes, work.position + kSlice);
  const std::byte* inputs[256];
  std::vector<const std::byte*> many(action.inputs > std::size(inputs) ? action.inputs : 0);
  const std::byte** in = many.empty() ? inputs : many.data();
  while (work.position < end) {
    const std::size_t size = std::min(block, end - work.position);
    std::size_t used = 0;
    for (std::uint32_t i = 0; i < action.inputs; ++i) {
      const Input& input = program.inputs[action.first_input + i];
      if (input.peer < 0) {
        in[i] = input.own + work.position;
      } else {
        in[i] = locate(receives[used], work.position, size, workspace_.data() + used * block);
        if (in[i] == nullptr) return false;
        ++used;
      }
    }
    kernels().reduce(program.fold, action.to + work.position, in, action.inputs, size / size_of(program.fold.dtype));
    work.position += size;
  }
  if (work.position == action.bytes) {
    for (Receive& receive : receives) release(receive);
    work.done = true;
  }
  return true;
}

// One input after the other as its bytes arrive, this rank's own first: needs no memory beside the output.
bool Operation::combine_streams(Combining& work) {
  const Action& action = *work.action;
  const auto receives = std::span(receives_).subspan(work.first_receive, work.receives);
  const auto inputs = std::span(program.inputs).subspan(action.first_input, action.inputs);
  const auto own = std::ranges::find_if(inputs, [](const Input& input) { return input.peer < 0; });
  bool moved = false;
  while (work.position < receives.size()) {
    Receive& receive = receives[work.position];
    if (receive.state == Receive::State::idle) {
      if (work.position == 0 && own != inputs.end() && own->own != action.to)
        std::memmove(action.to, own->own, action.bytes);
      const bool first = work.position == 0 && own == inputs.end();
      const bool last = work.position + 1 == receives.size();
      receive.fold = first ? nullptr : last ? &program.fold : &inner_fold_;
      post_receive(receive);
      moved = true;
    }
    if (receive.state == Receive::State::here) {
      // Offered by a readable peer, in a stage that also has peers that stream.
      const std::size_t size = std::min({kCombineBlock, workspace_.size(), receive.length - receive.filled});
      if (!read(receive, receive.filled, workspace_.data(), size)) return false;
      receive.consume(workspace_.data(), size);
      if (receive.state == Receive::State::done) release(receive);
      return true;
    }
    if (receive.state != Receive::State::done) return moved;
    ++work.position;
    moved = true;
  }
  work.done = true;
  return true;
}

bool Operation::combine(Combining& work) {
  if (work.done) return false;
  return work.in_place ? combine_in_place(work) : combine_streams(work);
}

bool Operation::step() {
  bool moved = false;
  while (state_ == State::running && !trouble_ && stage_ < program.stage_ends.size()) {
    if (!posted_) {
      post_stage();
      moved = true;
    }
    for (std::size_t i = stage_receives_; i < receives_used_; ++i) {
      Receive& receive = receives_[i];
      if (receive.state == Receive::State::here && !receive.in_place && receive.fold == nullptr) moved |= pull(receive);
    }
    for (Combining& work : combining_) moved |= combine(work);
    if (trouble_ || !stage_complete()) break;
    ++stage_;
    posted_ = false;
    moved = true;
  }
  return moved;
}

bool Operation::stage_complete() const {
  return std::ranges::all_of(combining_, &Combining::done) &&
         std::all_of(receives_.begin() + static_cast<std::ptrdiff_t>(stage_receives_),
                     receives_.begin() + static_cast<std::ptrdiff_t>(receives_used_),
                     [](const Receive& r) { return r.state == Receive::State::done; });
}

bool Operation::sends_done() const {
  return std::all_of(sends_.begin(), sends_.begin() + static_cast<std::ptrdiff_t>(sends_used_),
                     [](const Send& send) { return send.done; });
}

bool Operation::has_work() const {
  if (stage_ == program.stage_ends.size()) return complete();
  return !posted_ || stage_complete() ||
         std::ranges::any_of(receives_, [](const Receive& r) { return r.state == Receive::State::here; });
}

int Operation::source() const { return receives_.empty() ? -1 : receives_.front().actual_source; }

std::vector<int> Operation::missing() const {
  std::vector<int> ranks;
  const auto add = [&](int rank) {
    if (rank >= 0 && std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (std::size_t i = 0; i < receives_used_ && i < receives_.size(); ++i)
    if (receives_[i].state != Receive::State::done && receives_[i].state != Receive::State::here)
      add(receives_[i].source);
  for (const Send& send : sends_) {
    if (send.done || send.link == nullptr) continue;
    add(group->rank_of(send.link->peer()));
  }
  std::ranges::sort(ranks);
  return ranks;
}

bool Operation::involves(int rank) const {
  const auto ranks = missing();
  return std::ranges::find(ranks, rank) != ranks.end();
}

void Operation::drop_messages() {
  for (Receive& receive : receives_) {
    if (receive.state == Receive::State::posted) group->matcher.forget(receive);
    if (receive.state == Receive::State::streaming) receive.link->cancel(receive);
    receive.arrival.reset();
  }
  for (Send& send : sends_)
    if (!send.done && (send.queued || send.offered)) send.link->cancel(send);
}

void Operation::finish() { state_ = State::done; }

void Operation::fail(const Error& error) {
  if (over()) return;
  if (state_ == State::running) drop_messages();
  error_ = error;
  state_ = State::failed;
}

}  // namespace paceline
