// The engine of one process: its links, its groups, and the one loop that moves every operation on.
//
// One lock guards everything. Whoever waits for an operation moves all of them on (`wait`); the thread in `serve` does
// so for operations that nobody waits for, and steps aside while somebody does.
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
#include "progress/loop_host.hpp"
#include "progress/operation_pool.hpp"
#include "progress/placement.hpp"
#include "trace/events.hpp"

namespace paceline {

enum class Mode : std::uint8_t {
  blocking,
  async,
  notify,
  inside,  // asynchronous, and started by the loop itself, which holds the lock
};

// A rank that is waited for.
struct Missing {
  std::string who;
  std::string last;  // operation that it was last heard of in, or empty
  std::string line;  // where it said that its program was since it is waited for, in printable ASCII, or empty
  std::chrono::duration<double> ago{};  // when it said that
};

// An operation that is not over yet, and who keeps it from being over.
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
  // `spin` is how long a waiting caller spins; `description` is what peers call this process, as "rank 2 (host, pid)".
  // `interrupted`, if given, is asked now and then by a caller that waits long, without the lock: if it says so (a
  // user's Ctrl-C), the caller gives up and its group is aborted. Peers on this machine see `arena`. `home`: see
  // Placement.
  Engine(std::shared_ptr<Arena> arena, std::chrono::nanoseconds spin, std::string description,
         std::function<bool()> interrupted = {}, int home = -1);
  ~Engine() override;

  int add_tcp_peer(Descriptor socket, std::string description);
  int add_shm_peer(ShmPeer reach, std::string description);
  std::shared_ptr<Group> add_group(std::uint64_t channel, int rank, const std::vector<int>& peers,
                                   std::chrono::duration<double> timeout, Plans plans);
  void remove_group(Group& group);
  // For collectives that start from now on; all ranks do so between the same two.
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

  // Moves everything on until `operation` is over. Throws its failure, or Timeout after `timeout` (which fails the
  // group) if that is not negative.
  void wait(Operation& operation, std::chrono::duration<double> timeout);
  bool is_over(Operation& operation);
  // Ids of operations in mode `notify` that are over; waits for at least one. Empty once the engine is closed.
  std::vector<std::uint64_t> serve();
  void abort(Group& group, const std::string& reason);
  // What each link to another machine may bring in for this group, see Link::set_pace; infinite where that is unknown.
  void set_pace(Group& group, double bytes_per_second);
  void set_timeout(Group& group, std::chrono::duration<double> timeout);
  // How its large all-reduces of private buffers go within this machine, as the first rank has found out so far.
  std::vector<MethodTuner::Size> methods(const Group& group);
  void close();
  // For the coordinators that take part in the loop.
  LoopHost& host() { return *this; }

  // Of the last operations those with ids above `after`.
  std::vector<Event> events(std::uint64_t after = 0);
  // The time in which some caller has been waiting for an operation here.
  std::chrono::nanoseconds exposed();
  // Of each group the oldest collective and the oldest point-to-point operation: what is behind them waits for them.
  std::vector<Wait> waits();
  // What is said beside the reason if this operation, one of `waits`, reaches its deadline: where the ranks are.
  void annotate(std::uint64_t operation, std::string words);
  // Who has nothing under way does not read, and cannot be asked where it is: if a peer on another machine has sent it
  // something, it says by itself at which line its program is. Cut to 255 bytes.
  void tell_line(std::string_view line);
  // In a forked child: lets go of every descriptor, so that the peers of this rank notice when it dies.
  void forget_after_fork();

 private:
  struct Peer {
    std::unique_ptr<Link> link;
    std::string description;
    std::uint32_t interest = 0;  // epoll events asked for
    bool lost = false;
    bool left = false;  // said goodbye
    Error before;       // the first error that it knew of when it left
    bool seen = false;
    Header last_seen;  // the last message of an operation
    std::string line;  // see Missing
    Clock::time_point told;
  };
  class Foreground;
  static constexpr std::uint64_t kWakeToken = ~std::uint64_t{0};
  static constexpr std::uint64_t kAlarmToken = kWakeToken - 1;
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
  // True if it slept.
  bool pause(std::unique_lock<std::mutex>& lock, Backoff& backoff, CpuMeter& meter);
  void check_interrupt(std::unique_lock<std::mutex>& lock, Operation& operation);
  void park(std::unique_lock<std::mutex>& lock, CpuMeter& meter);
  // Nobody waits: the thread in serve looks after what is under way, now or when there is news.
  void leave_to_server(bool now);
  void settle_exposed();  // before `foreground_` changes
  void wake_server();
  void wake_listener();
  void set_alarm(Clock::time_point time);
  int add_peer(std::unique_ptr<Link> link, std::string description);
  bool progress(CpuMeter& meter);
  bool moves_data() const;
  bool poll_links();
  void poll_sockets();
  void handle_sockets(std::span<const epoll_event> events);
  void drain_wakeups(std::span<const epoll_event> events);
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
  void note(const Error& error);
  static std::vector<int> absent(const Operation& operation);
  std::string last_heard(const Group& group, int rank) const;
  void probe(Operation& operation);
  Missing missed(const Group& group, int rank, Clock::time_point since) const;
  void hear_line(Peer& peer, std::span<const std::byte> line);

  const std::shared_ptr<Arena> arena_;
  std::mutex mutex_;
  std::condition_variable others_;  // who would park while somebody else already listens to the sockets
  std::condition_variable aside_;   // the thread in serve, while callers wait
  const std::string description_;
  const std::function<bool()> interrupted_;
  WaitBudget caller_budget_;  // in small operations, which a wake-up would hold up most
  WaitBudget bulk_budget_;    // in others
  WaitBudget server_budget_;
  Placement placement_;
  std::vector<std::byte> workspace_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Link*> shm_links_;
  std::vector<Link*> tcp_links_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Group>> groups_;
  std::unordered_set<std::uint64_t> closed_channels_;
  std::vector<std::unique_ptr<SharedSegment>> departed_segments_;  // of groups that other ranks have yet to close
  std::vector<std::unique_ptr<Arrival>> orphans_;                  // for groups that this rank has yet to make
  std::vector<std::unique_ptr<Arrival>> arrival_pool_;
  std::vector<std::shared_ptr<Operation>> active_;
  std::vector<std::uint64_t> finished_;  // to be reported by serve
  EventRing events_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::string> notes_;  // see annotate
  Descriptor epoll_;
  Descriptor wake_;
  Descriptor alarm_;  // ends the sleep of an idle listener once there is an operation to watch
  std::atomic<int> contenders_{0};
  Clock::time_point alarm_at_ = Clock::time_point::max();
  int foreground_ = 0;           // threads in wait_locked
  bool listening_ = false;       // a thread sleeps on the sockets
  bool server_listens_ = false;  // it is the one in serve
  bool idle_listener_ = false;   // it does so with no operation in sight
  bool signalled_ = false;       // a signal ended such a sleep
  Parked parked_ = Parked::no;   // what peers have been asked to wake us for
  bool absent_peers_ = false;
  Error first_error_;  // of all groups
  Clock::time_point failed_at_;
  std::chrono::nanoseconds exposed_{};  // until `exposed_until_`
  Clock::time_point exposed_until_ = Clock::now();
  unsigned passes_ = 0;
  std::vector<LoopGuest*> guests_;
  int carrying_ = 0;  // guests that move data
  std::uint64_t coordination_cpu_ns_ = 0;
  CpuMeter* meter_ = nullptr;  // of the thread of the loop that holds the lock
  bool closed_ = false;
};

}  // namespace paceline
