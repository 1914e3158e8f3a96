// One collective in flight: a small state machine over a program. `start`, then `step` until it is over.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "execute/program.hpp"
#include "execute/receive.hpp"
#include "failure/error.hpp"

namespace paceline {

using Clock = std::chrono::steady_clock;
class Group;

class Operation {
 public:
  enum class State : std::uint8_t { idle, running, done, failed };

  Fingerprint what;
  std::uint32_t sequence = 0;
  std::uint64_t id = 0;
  bool notify = false;       // its end is reported by Engine::serve
  std::uint64_t waiter = 0;  // pthread_self of the caller that waits for it, 0 if none does
  Group* group = nullptr;
  Program program;
  std::vector<std::byte> scratch;
  const char* algorithm = "";
  Clock::time_point deadline;
  Clock::time_point started;
  Clock::time_point probed;

  State state() const { return state_; }
  bool over() const { return state_ == State::done || state_ == State::failed; }
  const Error& error() const { return error_; }
  int source() const;  // of the first message received
  std::string description() const { return describe(what, sequence); }
  // Group ranks that this operation waits for, each once.
  std::vector<int> missing() const;
  bool involves(int rank) const;
  // Whether `step` has something to do that does not wait for anybody.
  bool has_work() const;

  void start(Group& owner, std::span<std::byte> workspace);
  // Moves on by a bounded amount of work. True if anything moved.
  bool step();
  bool complete() const { return stage_ == program.stage_ends.size() && sends_done(); }
  // Whether it read a peer's memory, which counts only if the peer had not given up by then.
  bool read_remotely() const { return read_remotely_; }
  // What `step` found wrong, for the owner to fail the group with.
  const Error& trouble() const { return trouble_; }
  void finish();
  void fail(const Error& error);
  void reset();

 private:
  struct Combining {
    const Action* action;
    std::size_t first_receive;  // in receives_
    std::size_t receives;
    bool in_place;
    std::size_t position = 0;  // bytes combined in place, or streams taken in
    bool done = false;
  };

  void post_stage();
  void post_receive(Receive& receive);
  void post_combine(const Action& action);
  bool pull(Receive& receive);
  bool combine(Combining& work);
  bool combine_in_place(Combining& work);
  bool combine_streams(Combining& work);
  const std::byte* locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block);
  bool read(Receive& receive, std::size_t offset, std::byte* data, std::size_t size);
  void release(Receive& receive);
  bool stage_complete() const;
  bool sends_done() const;
  void drop_messages();
  Receive& next_receive(int peer, std::int32_t tag, std::byte* to, std::size_t bytes);
  std::uint32_t stage_begin() const { return stage_ == 0 ? 0 : program.stage_ends[stage_ - 1]; }

  State state_ = State::idle;
  Error error_;
  Error trouble_;
  bool read_remotely_ = false;
  std::span<std::byte> workspace_;
  std::size_t stage_ = 0;
  bool posted_ = false;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::size_t sends_used_ = 0;
  std::size_t receives_used_ = 0;
  std::size_t stage_receives_ = 0;  // the first of this stage
  std::vector<Combining> combining_;
  Fold inner_fold_{DType::uint8, Op::sum};  // the program's fold without the final division
};

}  // namespace paceline
