#include "message/combination.hpp"

#include <algorithm>
#include <cstring>

#include "calibration/messages.hpp"
#include "codec/codec.hpp"
#include "execute/group.hpp"
#include "kernel/reduce.hpp"

namespace paceline {

Combination::Combination(Context& context, const Instruction& instruction, std::span<Receive> receives)
    : context_(&context), action_(&instruction) {
  const auto first = std::ranges::find_if(receives, [](const Receive& receive) { return receive.up_to; });
  const auto plain = static_cast<std::size_t>(first - receives.begin());
  receives_ = receives.first(plain);
  encoded_ = receives.subspan(plain);
  for (Receive& receive : encoded_) context.post(receive);
  const auto own = inputs().first(action_->inputs - encoded_.size());
  combined_ = !encoded_.empty() && plain == 0 && (own.empty() || own[0].own == action_->to);
  for (const Receive& receive : receives_) {
    const Link& link = *context.group->members[static_cast<std::size_t>(receive.source)].link;
    in_place_ = in_place_ && (link.readable() || instruction.bytes <= link.eager_limit());
  }
  if (!in_place_) return;
  for (Receive& receive : receives_) {
    receive.in_place = true;
    context.post(receive);
  }
}

bool Combination::step() {
  if (done_) return false;
  if (combined_) return decode_next();
  const bool moved = in_place_ ? step_in_place() : step_streams();
  if (combined_) done_ = encoded_.empty();
  return moved;
}

bool Combination::decode_next() {
  Receive& receive = encoded_[decoded_];
  if (receive.state != Receive::State::done) return false;
  const Program& program = *context_->program;
  const DType dtype = program.fold.dtype;
  const std::size_t count = action_->bytes / size_of(dtype);
  const std::size_t first = action_->inputs - encoded_.size();
  const auto decodes = first + decoded_ == 0 ? &decode : &decode_and_add;
  if (!decodes(program.codec, dtype, {receive.to, receive.length}, action_->to, count)) {
    context_->refuse_garbled(receive.actual_source, receive.length, count);
    return false;
  }
  context_->slot_lengths[static_cast<std::size_t>(inputs()[first + decoded_].slot)] = receive.length;
  done_ = ++decoded_ == encoded_.size();
  return true;
}

const std::byte* Combination::locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block) {
  if (receive.arrival->header.frame == Frame::eager) return receive.arrival->payload.data() + offset;
  if (receive.arrival->view != nullptr) {
    context_->read_remotely = true;
    return receive.arrival->view + offset;
  }
  return context_->read(receive, offset, scratch_block, size) ? scratch_block : nullptr;
}

// Combines all inputs in one pass, block by block: each block is read once from every peer and written once.
bool Combination::step_in_place() {
  if (!std::ranges::all_of(receives_, [](const Receive& r) { return r.state == Receive::State::here; })) return false;
  const std::span<std::byte> workspace = context_->workspace;
  const Fold& fold = context_->program->fold;
  const std::size_t per_input = workspace.size() / std::max<std::size_t>(1, receives_.size());
  const std::size_t block = std::min(calibration::kCombinedBlock, per_input / 64 * 64);
  const std::size_t end = std::min(action_->bytes, position_ + calibration::kStepBytes);
  auto& sources = context_->inputs;
  while (position_ < end) {
    const std::size_t size = std::min(block, end - position_);
    std::size_t used = 0;
    sources.clear();
    for (const Input& input : inputs()) {
      if (input.slot >= 0) break;
      if (input.peer < 0) {
        sources.push_back(input.own + position_);
      } else {
        sources.push_back(locate(receives_[used], position_, size, workspace.data() + used * block));
        if (sources.back() == nullptr) return false;
        ++used;
      }
    }
    kernels().reduce(fold, action_->to + position_, sources.data(), sources.size(), size / size_of(fold.dtype));
    position_ += size;
  }
  if (position_ == action_->bytes) {
    if (!std::ranges::all_of(receives_, [&](const Receive& each) { return context_->stands(each); })) return false;
    for (Receive& receive : receives_) context_->release(receive);
    combined_ = true;
  }
  return true;
}

// Combines one input after the other as its bytes arrive, this rank's own first: it needs no memory beside the output.
bool Combination::step_streams() {
  const auto own = std::ranges::find_if(inputs(), [](const Input& input) { return input.peer < 0; });
  const bool owned = own != inputs().end();
  bool moved = false;
  while (position_ < receives_.size()) {
    Receive& receive = receives_[position_];
    if (receive.state == Receive::State::idle) {
      if (position_ == 0 && owned && own->own != action_->to) std::memmove(action_->to, own->own, action_->bytes);
      const bool first = position_ == 0 && !owned;
      const bool last = position_ + 1 == receives_.size();
      receive.fold = first ? nullptr : last ? &context_->program->fold : &context_->inner_fold;
      context_->post(receive);
      moved = true;
    }
    if (receive.state == Receive::State::here) {
      // A readable peer offers it, in a stage that also has peers that stream.
      const std::span<std::byte> workspace = context_->workspace;
      const std::size_t size =
          std::min({calibration::kCombinedBlock, workspace.size(), receive.length - receive.filled});
      if (!context_->read(receive, receive.filled, workspace.data(), size)) return false;
      receive.consume(workspace.data(), size);
      if (receive.state == Receive::State::done) context_->release(receive);
      return true;
    }
    if (receive.state != Receive::State::done) return moved;
    ++position_;
    moved = true;
  }
  combined_ = true;
  return true;
}

}  // namespace paceline
