// The engine of one process: its links, its groups, and the one loop that moves every operation on.
//
// One lock guards everything. A caller that waits for an operation (`wait`) moves all operations on. The thread in
// `serve` moves them on while no caller waits, and steps aside while one does.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "execute/group.hpp"
#include "link/shm.hpp"
#include "memory/arena.hpp"
#include "progress/backoff.hpp"
#include "progress/cpu_meter.hpp"
#include "progress/first_error.hpp"
#include "progress/loop_host.hpp"
#include "progress/operation_pool.hpp"
#include "progress/peers.hpp"
#include "progress/placement.hpp"
#include "progress/waiting_callers.hpp"
#include "progress/wakeups.hpp"
#include "trace/events.hpp"

namespace paceline {

enum class Mode : std::uint8_t {
  blocking,
  async,
  notify,
  inside,  // asynchronous, and started by the loop itself, which holds the lock
};

// A rank that an operation waits for.
struct Missing {
  std::string who;
  std::string last;  // the operation that it was last heard of in, or empty
  std::string line;  // where it said that its program was since it is waited for, in printable ASCII, or empty
  std::chrono::duration<double> ago{};  // when it said that
};

// An operation that is not over yet, and the ranks that it waits for.
struct Wait {
  std::uint64_t operation = 0;
  std::chrono::duration<double> time{};
  std::chrono::duration<double> left{};  // until its deadline
  std::uint64_t thread = 0;              // of the caller that waits, see Operation::waiter
  std::string what;
  std::vector<Missing> missing;
};

class Engine final : private Inbox, private LoopHost {
 public:
  // `spin` is how long a waiting caller spins. `description` is what peers call this process, for example
  // "rank 2 (host, pid)". A caller that waits long calls `interrupted` now and then, if it is given, without the lock:
  // if it returns true (the user pressed Ctrl-C), the caller gives up and its group is aborted. Peers on this machine
  // see `arena`. For `home` see Placement.
  Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
         std::function<bool()> interrupted = {}, int home = -1);
  ~Engine() override;

  int add_tcp_peer(Descriptor socket, std::string description);
  int add_shm_peer(ShmPeer reach, std::string description);
  std::shared_ptr<Group> add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                   std::chrono::duration<double> timeout, Plans plans);
  void remove_group(Group& group);
  // Sets the plans of collectives that start from now on. All ranks do so between the same two collectives.
  void set_plans(Group& group, Plans plans);

  // Starts one collective, an operation of this kind that `build` fills in. A blocking call returns null once the
  // operation is over. Throws Failure.
  template <typename Kind, typename Build>
  std::shared_ptr<Operation> run(Group& group, const Fingerprint& what, std::size_t bytes, Mode mode, Build&& build) {
    auto lock = mode == Mode::inside ? std::unique_lock<std::mutex>() : enter();
    check_open(group, what);
    auto operation = group.pool->take<Kind>();
    number(group, *operation, what, mode);
    build(*operation);
    return launch(lock, group, std::move(operation), bytes, mode);
  }

  // Moves everything on until `operation` is over. Throws its failure. A `timeout` that is not negative fails the group
  // once that time has passed.
  void wait(Operation& operation, std::chrono::duration<double> timeout);
  bool is_over(Operation& operation);
  // Waits until an operation in mode `notify` is over; returns the ids of all that are. Returns none once the engine is
  // closed.
  std::vector<std::uint64_t> serve();
  void abort(Group& group, const std::string& reason);
  // Sets what each link to another machine may bring in for this group, see Link::set_pace; infinite if that is
  // unknown.
  void set_pace(Group& group, double bytes_per_second);
  void set_timeout(Group& group, std::chrono::duration<double> timeout);
  // What the first rank has found out so far about the methods of large all-reduces of private buffers.
  std::vector<MethodTuner::Size> methods(const Group& group);
  void close();
  // For the coordinators that take part in the loop.
  LoopHost& host() { return *this; }

  // The events of recent operations with ids above `after`.
  std::vector<Event> events(std::uint64_t after = 0);
  // The time in which at least one caller has been waiting for an operation.
  std::chrono::nanoseconds exposed();
  // The oldest collective and the oldest point-to-point operation of each group: later ones wait for them.
  std::vector<Wait> waits();
  // Adds words to the reason that is given if this operation, one of `waits`, reaches its deadline: where the ranks
  // are.
  void annotate(std::uint64_t operation, std::string words);
  // Tells peers on other machines that have sent something at which line this rank's program is, cut to 255 bytes. A
  // rank with nothing under way does not read, so that they cannot ask it.
  void tell_line(std::string_view line);
  // Closes every descriptor in a forked child, so that the peers of this rank notice when it dies.
  void forget_after_fork();

 private:
  class Foreground;
  static constexpr auto kLongestPark = std::chrono::milliseconds(500);

  std::unique_ptr<Arrival> new_arrival() override;
  void deliver(std::unique_ptr<Arrival> arrival) override;
  StreamSink* expect(int peer, const Header& header) override;
  void lost(int peer, const std::string& reason) override;

  std::unique_lock<std::mutex> enter() override;
  bool closed() const override { return closed_; }
  const std::shared_ptr<Arena>& arena() const override { return arena_; }
  void admit(LoopGuest& guest) override;
  void dismiss(LoopGuest& guest) override;
  std::shared_ptr<Group> make_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                    std::chrono::duration<double> timeout, Plans plans) override;
  void drop_group(Group& group) override;
  void fail_group(Group& group, const Error& error) override;
  void close_channel(std::uint64_t channel) override;
  bool is_closed(std::uint64_t channel) const override;
  bool reaches(const Member& member) const override;
  std::uint64_t next_id() override { return ++last_id_; }
  void add(std::shared_ptr<Operation> operation) override;
  void step_now(Operation& operation) override;
  void report(std::uint64_t id) override;
  void wake_callers() override;
  CpuMeter* meter() const override { return meter_; }
  std::uint64_t coordination_cpu_ns() const override { return coordination_cpu_ns_; }
  void count_carrying(bool carries) override;

  void check_open(const Group& group, const Fingerprint& what) const;
  void number(Group& group, Operation& operation, const Fingerprint& what, Mode mode);
  bool finish_quickly(Operation& operation);
  void close_event(const Operation& operation);
  std::shared_ptr<Operation> launch(std::unique_lock<std::mutex>& lock, Group& group,
                                    std::shared_ptr<Operation> operation, std::size_t bytes, Mode mode);
  void wait_locked(std::unique_lock<std::mutex>& lock, Operation& operation);
  // Returns true if it slept.
  bool pause(std::unique_lock<std::mutex>& lock, Backoff& backoff, CpuMeter& meter);
  void check_interrupt(std::unique_lock<std::mutex>& lock, Operation& operation);
  void park(std::unique_lock<std::mutex>& lock, CpuMeter& meter);
  // No caller waits: the thread in `serve` moves operations on, now or when there is news.
  void leave_to_server(bool now);
  void wake_server();
  void wake_listener();
  int add_peer(std::unique_ptr<Link> link, std::string description);
  bool progress(CpuMeter& meter);
  bool moves_data() const;
  bool poll_links();
  void poll_sockets();
  void handle_sockets(std::span<const epoll_event> events);
  bool news_while_parking(CpuMeter& meter);
  void set_interest(bool reading);
  void set_parked(Parked parked);
  bool step_operations();
  bool step(Operation& operation);
  void retire();
  void check_clocks();
  void time_out(Operation& operation);
  Clock::time_point next_clock() const;
  Rest rest() const;
  void deliver_to(Group& group, int from, std::unique_ptr<Arrival> arrival);
  void share_segment(Group& group, std::vector<int> machine);
  void adopt(Group& group, Plans plans);
  void recycle(std::unique_ptr<Arrival> arrival);
  void pace_links(const Group& of);
  void fail_with_absent_peers(Operation& operation);
  Error explained(const Operation& operation) const;  // its trouble
  Error gone(const Group& group, int rank, const std::string& reason) const;
  Error gone(const Peer& peer, const std::string& name, const std::string& last, const std::string& reason) const;
  static std::vector<int> absent(const Operation& operation);
  std::string last_heard(const Group& group, int rank) const;
  void probe(Operation& operation);
  Missing missed(const Group& group, int rank, Clock::time_point since) const;
  void hear_line(Peer& peer, std::span<const std::byte> line);

  const std::shared_ptr<Arena> arena_;
  std::mutex mutex_;
  std::condition_variable others_;  // threads that would park while another one listens to the sockets already
  std::condition_variable aside_;   // the thread in `serve`, while callers wait
  const std::string description_;
  const std::function<bool()> interrupted_;
  WaitBudget caller_budget_;  // for small operations, which a wake-up delays most
  WaitBudget bulk_budget_;    // for larger ones
  WaitBudget server_budget_;
  Placement placement_;
  std::vector<std::byte> workspace_;
  Peers peers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Group>> groups_;
  std::unordered_set<std::uint64_t> closed_channels_;
  std::vector<std::unique_ptr<SharedSegment>> departed_segments_;  // of groups that other ranks have yet to close
  std::vector<std::unique_ptr<Arrival>> orphans_;                  // for groups that this rank has yet to make
  std::vector<std::unique_ptr<Arrival>> arrival_pool_;
  std::vector<std::shared_ptr<Operation>> active_;
  std::vector<std::uint64_t> finished_;  // `serve` reports these
  EventRing events_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::string> notes_;  // see annotate
  Wakeups wakeups_;
  std::atomic<int> contenders_{0};
  WaitingCallers callers_;
  bool listening_ = false;       // a thread sleeps on the sockets
  bool server_listens_ = false;  // it is the one in `serve`
  bool idle_listener_ = false;   // it does so with no operation in sight
  bool signalled_ = false;       // a signal ended such a sleep
  Parked parked_ = Parked::no;   // what peers are asked to wake this rank for
  bool absent_peers_ = false;
  FirstError first_error_;
  unsigned passes_ = 0;
  std::vector<LoopGuest*> guests_;
  int carrying_ = 0;  // guests that move data
  std::uint64_t coordination_cpu_ns_ = 0;
  CpuMeter* meter_ = nullptr;  // of the thread of the loop that holds the lock
  bool closed_ = false;
};

}  // namespace paceline
