// The engine of one process: its links, its groups, and the one loop that moves every operation on.
//
// One lock guards everything. A caller that waits for an operation (`wait`) moves all operations on. The thread in
// `serve` moves them on while no caller waits, and steps aside while one does. The thread in `notifications` tells
// users of what has ended, and moves nothing on.
//
// In a forked child every call throws Failure (refused), but for `close` and `remove_group`, which do nothing there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "execute/group.hpp"
#include "kernel/float_mode.hpp"
#include "link/shm.hpp"
#include "memory/arena.hpp"
#include "memory/origin.hpp"
#include "progress/active_operations.hpp"
#include "progress/culprits.hpp"
#include "progress/deadlines.hpp"
#include "progress/delivery.hpp"
#include "progress/engine_lock.hpp"
#include "progress/failures.hpp"
#include "progress/farewell.hpp"
#include "progress/groups.hpp"
#include "progress/guests.hpp"
#include "progress/loop.hpp"
#include "progress/loop_host.hpp"
#include "progress/notifications.hpp"
#include "progress/operation_pool.hpp"
#include "progress/parking.hpp"
#include "progress/peers.hpp"
#include "progress/questions.hpp"
#include "progress/sleepers.hpp"
#include "progress/sockets.hpp"
#include "progress/waiting.hpp"
#include "progress/waits.hpp"
#include "progress/whereabouts.hpp"
#include "trace/events.hpp"

namespace paceline {

enum class Mode : std::uint8_t {
  blocking,
  async,
  notify,
  inside,  // asynchronous, and started by the loop itself, which holds the lock
};

class Engine final : private LoopHost {
 public:
  // `spin` is how long a waiting caller spins. `description` is what peers call this process, for example
  // "rank 2 (host, pid)". A caller that waits long calls `interrupted` now and then, if it is given, without the lock:
  // if it returns true (the user pressed Ctrl-C), the caller gives up and its group is aborted. Peers on this machine
  // see `arena`. For `preferred_cpu` see Placement.
  Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
         std::function<bool()> interrupted = {}, int preferred_cpu = -1);
  ~Engine() override;

  int add_tcp_peer(Descriptor socket, std::string description);
  int add_shm_peer(ShmPeer reach, std::string description);
  std::shared_ptr<Group> add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                   std::chrono::duration<double> timeout, Plans plans);
  // Throws Failure (mismatch) if the ranks of this group, which are on several machines, named different roots in the
  // last collective, or disagreed about an earlier one and no call has said so. The group is removed even so.
  void remove_group(Group& group);
  // Sets the plans of collectives that start from now on. All ranks do so between the same two collectives.
  void set_plans(Group& group, Plans plans);
  // Sets the bytes per second that each link to another machine may bring in for this group, see Link::set_pace, and
  // those that the link to every rank sends, see Link::set_send_rate: 0 where the plans send nothing; infinite where
  // they are unknown. Throws Failure (invalid) unless there is a rate for every rank.
  void set_pace(Group& group, double inbound, std::vector<double> outbound);
  // Says which ranks share a machine, by equal numbers; and with which codec sums of float32 of so many bytes or more
  // go between machines where the caller names none. All ranks do so between the same two collectives.
  void set_machines(Group& group, std::vector<int> machines);
  void set_codec(Group& group, Codec codec, std::size_t from = 0);
  // What has become of a peer, by its handle; no error while it is there.
  Error fate(int peer);
  // See Link::received; 0 for the group's own rank.
  std::uint64_t received(const Group& group, int rank);
  void set_timeout(Group& group, std::chrono::duration<double> timeout);

  // Counts the group's large collectives from now on, see LargeCalls; all ranks do so between the same two of them.
  // The functions that follow throw Failure (invalid) for a group that does not count.
  void count_large(Group& group, std::uint64_t stop);
  LargeCalls::Snapshot large_calls(const Group& group, std::uint64_t first);
  void stop_before(Group& group, std::uint64_t number);
  // Waits until no large collective of the group is under way. Does not throw their failures.
  void finish_large(const Group& group);

  // Starts one collective or message, an operation of this kind that `build` fills in. A blocking call returns null
  // once the operation is over, and so does one in mode `async` if the operation is a send and over at once. Throws
  // Failure.
  template <typename Kind, typename Build>
  std::shared_ptr<Operation> run(Group& group, const Fingerprint& what, std::size_t bytes, Mode mode, Build&& build) {
    auto lock = mode == Mode::inside ? Sleepers::Lock() : enter();
    if (what.collective == Collective::recv) {  // what has come need not be waited for
      const PlainFloats floats;
      loop_.poll_links();
    }
    check_open(group, what);
    auto operation = group.pool->take<Kind>();
    operations_.number(group, *operation, what);
    operation->notify = mode == Mode::notify;
    build(*operation);
    return launch(lock, group, std::move(operation), bytes, mode);
  }

  // Moves everything on until `operation` is over. Throws its failure. A `timeout` that is not negative fails the group
  // once that time has passed.
  void wait(Operation& operation, std::chrono::duration<double> timeout);
  bool is_over(Operation& operation);
  // Has `notifications` report the end of an operation that was started in mode `async`. Returns false if it is over
  // already, and will not be reported.
  bool notify(Operation& operation);
  // Moves operations on until the engine is closed.
  void serve();
  // Waits until an operation in mode `notify` is over; returns the ids of all that are, in the order in which they
  // ended. Meanwhile runs the callbacks of requests. Returns none once the engine is closed. One thread calls this; an
  // engine nobody ever asks to report anything needs none.
  std::vector<std::uint64_t> notifications();
  void abort(Group& group, const std::string& reason);
  // A call of this rank has raised before its collective began: tells the others, which may wait in it and fail then.
  // Nothing fails if the same call has raised on all ranks.
  void refuse(Group& group, Collective collective, const std::string& reason);
  // How many of the groups that this rank has removed others have not, as far as it has heard.
  std::size_t removed_early();
  // Removes all groups, see `remove_group`, and says goodbye to the peers.
  void close();
  // Throws Failure (refused), because this process is a forked child.
  [[noreturn]] void refuse_child() const;
  // For the coordinators that take part in the loop.
  LoopHost& host() { return *this; }

  // The events of recent operations with ids above `after`.
  std::vector<Event> events(std::uint64_t after = 0);
  // What the first rank has found out so far about the methods of large all-reduces of private buffers.
  std::vector<MethodTuner::Size> methods(const Group& group);
  // The time in which at least one caller has been waiting for an operation.
  std::chrono::nanoseconds exposed();
  // See Waits.
  std::vector<Wait> waits();
  void annotate(std::uint64_t operation, std::string words);
  // See Whereabouts::tell_line. A rank with something under way reads, and so is asked.
  void tell_line(std::string_view line);
  // See Questions. `questions` and `answers` first take in what peers have sent where nothing is under way, since a
  // rank that is idle does not read.
  std::uint64_t ask(std::string_view words);
  std::vector<Answer> answers();
  std::vector<Question> questions();
  void answer(const Question& question, std::string_view content);
  // What peers on other machines are called, and how far their clocks are ahead, as far as that is known.
  std::vector<std::pair<std::string, ClockBounds>> clocks();
  // Returns whether the peer's link has sent all that was queued, or is lost.
  bool flush(int peer);
  int questions_descriptor() const { return questions_.descriptor(); }
  // Around a fork nothing is moved on, so that a child does not inherit a lock that nobody in it gives back.
  void before_fork() { lock_.take().release(); }
  void after_fork_in_parent() { lock_.give_back(); }
  // Closes every descriptor, so that the peers of this rank notice when it dies.
  void after_fork_in_child();

 private:
  Sleepers::Lock enter() override;
  // The lock, as whoever enters takes it, in a process that has made this engine itself.
  Sleepers::Lock take_over();
  bool inherited() const override { return origin_.inherited(); }
  bool closed() const override { return closed_; }
  const std::shared_ptr<Arena>& arena() const override { return arena_; }
  void admit(LoopGuest& guest) override { guests_.admit(guest); }
  void dismiss(LoopGuest& guest) override { guests_.dismiss(guest); }
  std::shared_ptr<Group> make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                    std::chrono::duration<double> timeout, Plans plans) override;
  void drop_group(Group& group) override;
  void fail_group(Group& group, const Error& error) override;
  void close_channel(std::uint64_t channel, const Group& group) override { groups_.close_channel(channel, group); }
  bool reaches(const Member& member) const override { return member.link != nullptr && peers_.reaches(member.peer); }
  std::uint64_t next_id() override { return operations_.next_id(); }
  void add(std::shared_ptr<Operation> operation) override { operations_.add(std::move(operation)); }
  void step_now(Operation& operation) override;
  void report(std::uint64_t id) override { notifications_.report(id); }
  void call(std::function<void()> callback) override { notifications_.call(std::move(callback)); }
  void wake_callers() override { sleepers_.wake_callers(); }
  void wake_all() override { sleepers_.wake_server(); }
  CpuMeter* meter() const override { return guests_.meter(); }
  std::uint64_t coordination_cpu_ns() const override { return guests_.cpu_ns(); }
  void count_carrying(bool carries) override { guests_.count_carrying(carries); }

  // What a call has left in queues is for the server to send. What it combines does not depend on its thread.
  class Leaving {
   public:
    explicit Leaving(Engine& engine) : engine_(engine) {}
    ~Leaving() { engine_.leave_queues(); }
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;

   private:
    Engine& engine_;
    const PlainFloats floats_;
  };
  void leave_queues() {
    if (peers_.any_waiting() && waiting_.is_idle()) parking_.leave_queues();
  }
  void read_if_idle();
  void check_open() const;
  void check_open(Group& group, const Fingerprint& what) const;
  void leave_groups(const std::vector<std::shared_ptr<Group>>& groups);
  Error end();
  std::shared_ptr<Operation> launch(Sleepers::Lock& lock, Group& group, std::shared_ptr<Operation> operation,
                                    std::size_t bytes, Mode mode);

  const std::shared_ptr<Arena> arena_;
  const std::string description_;
  const Origin origin_;
  EngineLock lock_;
  std::vector<std::byte> workspace_;  // of the operation that is being stepped
  bool closed_ = false;
  Guests guests_;
  Peers peers_;
  Sleepers sleepers_{*arena_};
  Notifications notifications_;
  ActiveOperations operations_{sleepers_, notifications_};
  Groups groups_{*arena_, peers_, operations_, description_};
  Whereabouts whereabouts_{peers_};
  Questions questions_{peers_};
  Culprits culprits_{peers_, operations_, description_};
  Waits waits_{operations_, culprits_, whereabouts_};
  Failures failures_{peers_, groups_, operations_, whereabouts_, description_};
  Deadlines deadlines_{operations_, peers_, whereabouts_, waits_, culprits_, failures_};
  Delivery delivery_{peers_, sleepers_.wakeups(), groups_, whereabouts_, questions_, culprits_, failures_};
  Sockets sockets_{peers_, sleepers_.wakeups(), delivery_, operations_};
  Loop loop_{peers_, sockets_, delivery_, operations_, failures_, deadlines_, guests_};
  Parking parking_{peers_, sleepers_, sockets_, loop_, operations_, deadlines_};
  Waiting waiting_;
  Farewell farewell_{peers_, operations_, waiting_, whereabouts_, failures_, workspace_};
};

}  // namespace paceline
