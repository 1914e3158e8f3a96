// A combine instruction under way: its inputs come from this rank and from messages. Those that come encoded are the
// last; each is added, or put there as the first of all, once all of it has come.
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
  // Whether what it can do next has come.
  bool has_work() const { return combined_ && !done_ && encoded_[decoded_].state == Receive::State::done; }

 private:
  bool step_in_place();
  bool step_streams();
  bool decode_next();
  const std::byte* locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block);
  std::span<const Input> inputs() const {
    return std::span(context_->program->inputs).subspan(action_->first_input, action_->inputs);
  }

  Context* context_;
  const Instruction* action_;
  std::span<Receive> receives_;  // as they are
  std::span<Receive> encoded_;
  bool in_place_ = true;      // all inputs are at hand at once
  std::size_t position_ = 0;  // the bytes combined in place, or the streams taken in
  bool combined_ = false;     // all but the encoded ones are done
  std::size_t decoded_ = 0;   // the encoded ones that are done
  bool done_ = false;
};

}  // namespace paceline
