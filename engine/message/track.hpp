// A track of a program under way. It carries out its stages one after the other.
#pragma once

#include <vector>

#include "message/combination.hpp"
#include "message/context.hpp"

namespace paceline {

class Track {
 public:
  // Begins the program's track `index`, which has its slots in `slots`. It may be called again once that track is
  // complete or forgotten.
  void begin(Context& context, std::size_t index, std::byte* slots);
  // Moves on by a bounded amount of work. Returns true if anything moved.
  bool step();
  bool ended() const { return stage_ == end_; }  // its sends may still be under way
  bool complete() const { return ended() && sent(sends_used_); }
  // Whether a combination waits for sends to be read.
  bool combines_after_sends() const;
  // Whether `step` has something to do that does not wait for another rank.
  bool has_work() const;
  // Appends the group ranks that it waits for.
  void missing(std::vector<int>& ranks) const;
  // Nothing may touch its buffers any more.
  void let_go();
  void forget();

 private:
  void post_stage();
  void post_send(const Instruction& instruction);
  void post_combine(const Instruction& instruction);
  void encode(const Instruction& instruction);
  Receive& next_receive(int peer, std::int32_t tag, std::byte* to, std::size_t bytes);
  bool stage_complete() const;
  bool sent(std::size_t sends) const;  // whether the first so many sends are done

  Context* context_ = nullptr;
  std::byte* slots_ = nullptr;
  std::size_t stage_ = 0;
  std::size_t end_ = 0;
  // Links keep pointers to these, so they do not move before the track is complete.
  std::vector<Message> sends_;
  std::vector<Receive> receives_;
  std::size_t sends_used_ = 0;
  std::size_t receives_used_ = 0;
  std::size_t stage_receives_ = 0;  // the first of this stage
  std::size_t stage_sends_ = 0;
  std::vector<Combination> combinations_;
};

}  // namespace paceline
