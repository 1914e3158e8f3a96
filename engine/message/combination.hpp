// A combine instruction under way: its inputs come from this rank and from messages.
#pragma once

#include <span>

#include "message/context.hpp"

namespace paceline {

class Combination {
 public:
  // `receives` are idle and stay where they are until this is done.
  Combination(Context& context, const Instruction& instruction, std::span<Receive> receives);

  // Moves on by a bounded amount of work. Returns true if anything moved. Nothing is written before the first call.
  bool step();
  bool done() const { return done_; }
  bool after_sends() const { return action_->after_sends; }

 private:
  bool step_in_place();
  bool step_streams();
  const std::byte* locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block);
  std::span<const Input> inputs() const {
    return std::span(context_->program->inputs).subspan(action_->first_input, action_->inputs);
  }

  Context* context_;
  const Instruction* action_;
  std::span<Receive> receives_;
  bool in_place_ = true;      // all inputs are at hand at once
  std::size_t position_ = 0;  // the bytes combined in place, or the streams taken in
  bool done_ = false;
};

}  // namespace paceline
