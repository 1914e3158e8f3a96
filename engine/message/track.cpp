#include "message/track.hpp"

#include <algorithm>
#include <cstring>

#include "execute/group.hpp"
#include "kernel/reduce.hpp"

namespace paceline {

void Track::forget() {
  sends_.clear();
  receives_.clear();
  combinations_.clear();
  stage_ = end_ = 0;
  sends_used_ = receives_used_ = stage_receives_ = stage_sends_ = 0;
}

void Track::begin(Context& context, std::size_t index, std::byte* slots) {
  forget();
  context_ = &context;
  slots_ = slots;
  const Program& program = *context.program;
  stage_ = program.first_stage(index);
  end_ = program.track_ends[index];
  std::size_t sends = 0;
  std::size_t receives = 0;
  for (std::uint32_t i = program.first_instruction(stage_); i < program.stage_ends[end_ - 1]; ++i) {
    const Instruction& instruction = program.instructions[i];
    sends += instruction.kind == Instruction::Kind::send ? 1 : 0;
    receives += instruction.kind == Instruction::Kind::receive ? 1 : 0;
    for (std::uint32_t k = 0; k < instruction.inputs; ++k)
      receives += program.inputs[instruction.first_input + k].peer >= 0 ? 1 : 0;
  }
  sends_.resize(sends);
  receives_.resize(receives);
  post_stage();
}

Receive& Track::next_receive(int peer, std::int32_t tag, std::byte* to, std::size_t bytes) {
  Receive& receive = receives_[receives_used_++];
  receive.source = peer;
  receive.sequence = context_->header.sequence;
  receive.tag = tag;
  receive.to = to;
  receive.length = bytes;
  return receive;
}

void Track::post_send(const Instruction& instruction) {
  Message& send = sends_[sends_used_++];
  send.header = context_->header;
  send.header.length = instruction.bytes;
  send.header.tag = instruction.tag;
  send.data = instruction.from;
  if (instruction.slot >= 0) {
    const auto slot = static_cast<std::size_t>(instruction.slot);
    send.header.length = context_->slot_lengths[slot];
    send.data = slots_ + context_->program->slots[slot].offset;
  }
  send.unasked = context_->program->unasked;
  send.link = context_->group->members[static_cast<std::size_t>(instruction.peer)].link;
  send.link->post(send);
}

void Track::post_combine(const Instruction& instruction) {
  const std::size_t first = receives_used_;
  for (std::uint32_t i = 0; i < instruction.inputs; ++i) {
    const Input& input = context_->program->inputs[instruction.first_input + i];
    if (input.slot >= 0) {
      const EncodedSlot& slot = context_->program->slots[static_cast<std::size_t>(input.slot)];
      next_receive(input.peer, input.tag, slots_ + slot.offset, slot.capacity).up_to = true;
    } else if (input.peer >= 0) {
      next_receive(input.peer, input.tag, instruction.to, instruction.bytes);
    }
  }
  combinations_.emplace_back(*context_, instruction, std::span(receives_).subspan(first, receives_used_ - first));
}

void Track::encode(const Instruction& instruction) {
  const auto number = static_cast<std::size_t>(instruction.slot);
  const EncodedSlot& slot = context_->program->slots[number];
  std::byte* const room = slots_ + slot.offset;
  const Codec codec = context_->program->codec;
  const DType dtype = context_->program->fold.dtype;
  const std::size_t count = instruction.bytes / size_of(dtype);
  std::size_t& length = context_->slot_lengths[number];
  length = instruction.residual != nullptr
               ? encode_with_residual(codec, instruction.from, instruction.residual, count, room)
               : paceline::encode(codec, dtype, instruction.from, count, room);
  if (instruction.to != nullptr) decode(codec, dtype, {room, length}, instruction.to, count);
}

void Track::post_stage() {
  combinations_.clear();
  stage_receives_ = receives_used_;
  stage_sends_ = sends_used_;
  const Program& program = *context_->program;
  const DType dtype = program.fold.dtype;
  for (std::uint32_t i = program.first_instruction(stage_); i < program.stage_ends[stage_]; ++i) {
    const Instruction& instruction = program.instructions[i];
    switch (instruction.kind) {
      case Instruction::Kind::copy: std::memmove(instruction.to, instruction.from, instruction.bytes); break;
      case Instruction::Kind::scale:
        kernels().scale(dtype, instruction.to, instruction.from, instruction.bytes / size_of(dtype),
                        instruction.factor);
        break;
      case Instruction::Kind::divide:
        kernels().divide(dtype, instruction.to, instruction.to, instruction.bytes / size_of(dtype), instruction.factor);
        break;
      case Instruction::Kind::encode: encode(instruction); break;
      case Instruction::Kind::send: post_send(instruction); break;
      case Instruction::Kind::receive:
        context_->post(next_receive(instruction.peer, instruction.tag, instruction.to, instruction.bytes));
        break;
      case Instruction::Kind::combine: post_combine(instruction); break;
    }
  }
}

bool Track::step() {
  bool moved = false;
  while (stage_ < end_) {
    for (std::size_t i = stage_receives_; i < receives_used_; ++i) {
      Receive& receive = receives_[i];
      if (receive.state == Receive::State::here && !receive.in_place && receive.fold == nullptr)
        moved |= context_->pull(receive);
    }
    for (Combination& combination : combinations_)
      if (!combination.after_sends() || sent(stage_sends_)) moved |= combination.step();
    if (context_->trouble || !stage_complete()) break;
    if (++stage_ < end_) post_stage();
    moved = true;
  }
  return moved;
}

bool Track::stage_complete() const {
  return std::ranges::all_of(combinations_, &Combination::done) &&
         std::all_of(receives_.begin() + static_cast<std::ptrdiff_t>(stage_receives_),
                     receives_.begin() + static_cast<std::ptrdiff_t>(receives_used_),
                     [](const Receive& r) { return r.state == Receive::State::done; });
}

bool Track::combines_after_sends() const {
  return stage_ < end_ &&
         std::ranges::any_of(combinations_, [](const auto& each) { return each.after_sends() && !each.done(); });
}

bool Track::sent(std::size_t sends) const {
  return std::all_of(sends_.begin(), sends_.begin() + static_cast<std::ptrdiff_t>(sends),
                     [](const Message& send) { return send.done; });
}

bool Track::has_work() const {
  if (stage_ == end_) return sent(sends_used_);
  return stage_complete() ||
         std::ranges::any_of(
             combinations_,
             [&](const Combination& each) { return each.has_work() && (!each.after_sends() || sent(stage_sends_)); }) ||
         std::ranges::any_of(receives_, [](const Receive& r) { return r.state == Receive::State::here; });
}

void Track::missing(std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < receives_used_; ++i) {
    const Receive& receive = receives_[i];
    if (receive.state != Receive::State::done && receive.state != Receive::State::here) ranks.push_back(receive.source);
  }
  for (std::size_t i = 0; i < sends_used_; ++i)
    if (!sends_[i].done) ranks.push_back(context_->group->rank_of(sends_[i].link->peer()));
}

void Track::let_go() {
  for (Receive& receive : receives_) {
    if (receive.state == Receive::State::posted) context_->group->matcher.forget(receive);
    if (receive.state == Receive::State::streaming) receive.link->cancel(receive);
    receive.arrival.reset();
  }
  for (Message& send : sends_)
    if (!send.done && (send.queued || send.offered)) send.link->cancel(send);
}

}  // namespace paceline
