// How a coordinator and the engine see each other: the engine's loop is the host, the coordinator is a guest.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "execute/group.hpp"
#include "memory/arena.hpp"
#include "progress/cpu_meter.hpp"

namespace paceline {

// What the engine sees of a coordinator.
class LoopGuest {
 public:
  // The engine closes, and holds its lock: the guest fails what it has under way, and calls LoopHost::dismiss.
  virtual void leave() = 0;

 protected:
  ~LoopGuest() = default;
};

// What a coordinator sees of the engine. The caller holds the lock that `enter` returns.
class LoopHost {
 public:
  virtual ~LoopHost() = default;

  // Throws Failure (refused) in a forked child.
  virtual std::unique_lock<std::mutex> enter() = 0;
  // Whether this process is a forked child of the one that made it, and has to leave it alone.
  virtual bool inherited() const = 0;
  virtual bool closed() const = 0;
  virtual const std::shared_ptr<Arena>& arena() const = 0;

  virtual void admit(LoopGuest& guest) = 0;
  virtual void dismiss(LoopGuest& guest) = 0;

  virtual std::shared_ptr<Group> make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                            std::chrono::duration<double> timeout, Plans plans) = 0;
  virtual void drop_group(Group& group) = 0;
  virtual void fail_group(Group& group, const Error& error) = 0;
  // No group like this one will be made for this channel: messages that arrive for it are thrown away.
  virtual void close_channel(std::uint64_t channel, const Group& group) = 0;
  // Whether there is a link to this member, and it has not been lost.
  virtual bool reaches(const Member& member) const = 0;

  virtual std::uint64_t next_id() = 0;
  // The loop steps this operation, which has been started, until it is over.
  virtual void add(std::shared_ptr<Operation> operation) = 0;
  // Steps an operation of the loop at once. The thread that moves the loop does the rest.
  virtual void step_now(Operation& operation) = 0;
  // The notifier reports this id, see Engine::notifications.
  virtual void report(std::uint64_t id) = 0;
  // The notifier calls this, without the lock.
  virtual void call(std::function<void()> callback) = 0;
  // An operation that the loop does not step is over: a caller may wait for it.
  virtual void wake_callers() = 0;
  // The same in a thread that does not move the loop: the one that does may sleep, and be such a caller.
  virtual void wake_all() = 0;

  // The meter of the thread that is stepping operations; null if no thread is.
  virtual CpuMeter* meter() const = 0;
  virtual std::uint64_t coordination_cpu_ns() const = 0;
  // A guest begins, or ceases, to move data: that is not coordination.
  virtual void count_carrying(bool carries) = 0;
};

}  // namespace paceline
