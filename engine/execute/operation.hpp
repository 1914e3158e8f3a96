// One collective in flight: a small state machine. `start`, then `step` until it is over.
#pragma once

#include <sched.h>

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

// A rank that waits in a collective reports that to the others this often.
constexpr auto kProbeAfter = std::chrono::seconds(1);

// How the loop waits when nothing moves.
enum class Rest : std::uint8_t {
  adaptive,  // spin while that is likely to pay, then sleep
  sleep,     // sleep at once
  yield,     // offer the core at each look, and do not sleep
  spin,      // keep the core
};

class Operation {
 public:
  enum class State : std::uint8_t { idle, running, done, failed };

  Fingerprint what;
  std::uint32_t sequence = 0;
  std::uint64_t id = 0;
  bool notify = false;       // its end is reported by Engine::notifications
  std::uint64_t waiter = 0;  // pthread_self of the caller that waits for it, 0 if none does
  std::int64_t large = -1;   // its number in Group::large_calls, -1 if it is not counted there
  Group* group = nullptr;
  const char* algorithm = "";
  Clock::time_point deadline;
  Clock::time_point started;
  Clock::time_point probed;
  Clock::time_point wake = Clock::time_point::max();  // `step` has something to do by then
  Rest rest = Rest::adaptive;
  bool probes = true;  // it tells the others from time to time that it waits

  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  State state() const { return state_; }
  bool over() const { return state_ == State::done || state_ == State::failed; }
  const Error& error() const { return error_; }
  // What the headers of all its messages have in common. It has a group.
  Header header() const;
  virtual std::string description() const { return describe(what, sequence); }
  virtual std::string tensor() const { return {}; }  // the name that the caller gave it, if any
  // The operation that it has its deadline from: another one, if it looks after several.
  virtual const Operation& urgent() const { return *this; }
  // No thread looked at this operation between these two times. What is beyond the `usual` time does not count: this
  // process did not run.
  virtual void postpone(Clock::time_point from, Clock::time_point to, Clock::duration usual);
  // What it waits for, for warnings: itself; or those that it looks after, one for all that miss the same ranks.
  struct Waiting {
    const Operation* operation;
    std::size_t more;  // others like it
  };
  virtual std::vector<Waiting> waiting() const { return {{this, 0}}; }
  virtual bool speaks_for_itself() const { return true; }
  // The operations under way whose ranks it waits for: itself, or those that carry it out.
  virtual std::vector<const Operation*> parts() const { return {this}; }
  // What tells it from others of its group, on all of its ranks.
  virtual std::uint64_t number() const { return sequence; }
  // What `step` has found wrong. The owner fails the group with it.
  const Error& trouble() const { return trouble_; }

  // `workspace` is scratch memory that is free between two steps.
  void start(Group& owner, std::span<std::byte> workspace);
  // Moves on by a bounded amount of work. Returns true if anything moved.
  virtual bool step() = 0;
  virtual bool complete() const = 0;
  void finish();
  void fail(const Error& error);
  // Its group has failed.
  virtual void group_failed(const Error& error) {
    fail({error.kind, description() + " failed: " + error.message, error.culprit});
  }
  // A caller, which holds the engine's lock, waits for it from now on.
  virtual void awaited() {}
  void reset();

  virtual int source() const { return -1; }  // the sender of the message that a receive took
  // The group ranks that this operation waits for, each once; and those that have not begun it, as far as is known.
  virtual std::vector<int> missing() const = 0;
  virtual std::vector<int> absent() const = 0;
  bool involves(int rank) const;
  // Whether one of these ranks, whichever it is, is all that it waits for.
  virtual bool waits_for_any() const { return false; }
  // Whether `step` has something to do that does not wait for another rank.
  virtual bool has_work() const = 0;
  // Whether something only waits for a peer to have read what it was offered.
  virtual bool awaits_acknowledgements() const { return false; }
  // Whether it read a peer's memory, which counts only if the peer had not given up by then.
  virtual bool read_remotely() const { return false; }
  // Whether it needs links to move on, and not only memory to look at.
  virtual bool needs_links() const { return true; }
  // Whether one of these leads to another machine.
  virtual bool needs_network() const { return needs_links(); }
  // Whether what it waits for may lie where the peer has put it until a caller asks for it: nobody need be woken.
  virtual bool patient() const { return false; }
  // The group rank of a rank that it waits for and that was last seen on the CPU of the caller; -1 if there is none.
  virtual int neighbour() const { return -1; }
  // Whether the CPU of the caller holds too many of this machine's ranks, where they were last seen: it holds two more
  // than another one of `cpus`, and the caller is the last of them.
  virtual bool crowded(const cpu_set_t& /*cpus*/) const { return false; }

 protected:
  virtual void begin() = 0;
  virtual void end() {}                 // the operation is done
  virtual void let_go(const Error&) {}  // the operation has failed: nothing may touch its buffers any more
  virtual void clear() = 0;

  std::span<std::byte> workspace_;
  Error trouble_;

 private:
  State state_ = State::idle;
  Error error_;
};

}  // namespace paceline
