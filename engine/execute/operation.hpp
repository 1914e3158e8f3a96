// One collective in flight: a small state machine. `start`, then `step` until it is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "failure/error.hpp"
#include "link/header.hpp"

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
  const char* algorithm = "";
  Clock::time_point deadline;
  Clock::time_point started;
  Clock::time_point probed;

  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  State state() const { return state_; }
  bool over() const { return state_ == State::done || state_ == State::failed; }
  const Error& error() const { return error_; }
  std::string description() const { return describe(what, sequence); }
  // What `step` found wrong, for the owner to fail the group with.
  const Error& trouble() const { return trouble_; }

  // `workspace` is scratch memory that is free between two steps.
  void start(Group& owner, std::span<std::byte> workspace);
  // Moves on by a bounded amount of work. True if anything moved.
  virtual bool step() = 0;
  virtual bool complete() const = 0;
  void finish();
  void fail(const Error& error);
  void reset();

  virtual int source() const { return -1; }  // of the first message received
  // Group ranks that this operation waits for, each once; and those that have not begun it, as far as is known.
  virtual std::vector<int> missing() const = 0;
  virtual std::vector<int> absent() const = 0;
  bool involves(int rank) const;
  // Whether `step` has something to do that does not wait for anybody.
  virtual bool has_work() const = 0;
  // Whether it read a peer's memory, which counts only if the peer had not given up by then.
  virtual bool read_remotely() const { return false; }
  // Whether it moves on without any link, by looking at memory.
  virtual bool needs_links() const { return true; }
  // The group rank of somebody that it waits for and that was last seen on the CPU of the caller; -1 if there is none.
  virtual int neighbour() const { return -1; }

 protected:
  virtual void begin() = 0;
  virtual void end() {}     // it is done
  virtual void let_go() {}  // it has failed: nothing may touch its buffers any more
  virtual void clear() = 0;

  std::span<std::byte> workspace_;
  Error trouble_;

 private:
  State state_ = State::idle;
  Error error_;
};

}  // namespace paceline
