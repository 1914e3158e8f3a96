// Carries out the requests that ranks hand in by name, in any order: it tells a policy what happens, does what the
// policy wants, and moves the data of the batches that the policy issues.
//
// It is an operation of the engine's one loop, under way for as long as a request of this rank is, or its policy polls.
// Its control group carries the policy's own messages, its data groups carry batches.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/batch_work.hpp"
#include "coordinator/pending_request.hpp"
#include "policy/make.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

// The arguments of a request. The memory stays in place until the request is over.
struct RequestArguments {
  std::string_view name;
  Fingerprint what;  // its count is 0 if ranks may differ
  std::string_view shape;
  std::byte* data = nullptr;
  std::size_t count = 0;                 // of this rank's elements
  std::byte* target = nullptr;           // where this rank's part of a reduce_scatter goes
  std::byte* residual = nullptr;         // of an all_reduce with a codec: float32, as many as the data; null: none
  std::vector<std::size_t> counts = {};  // of the elements for each rank, in an all_to_all or reduce_scatter
  double prescale = 1;
  double postscale = 1;
  std::int32_t priority = 0;
  Bundle bundle = {};
};

// What a coordinator has done so far, beside its policy.
struct Totals {
  std::uint64_t batches = 0;
  std::uint64_t fused_bytes = 0;        // of tensors that were packed with others
  std::uint64_t background_cpu_ns = 0;  // CPU time of the server, and of callers that synchronise; not for moving data
  std::uint64_t handing_in_ns = 0;      // time that callers spent in `submit`
  std::uint64_t spin_ns = 0;            // time that this rank waited for others to synchronise
  std::uint64_t oversleep_ns = 0;       // time that it slept beyond what the policy had asked for
  std::uint64_t sleeps = 0;
  std::uint64_t negotiation_ns = 0;  // until issue, of requests that this rank was the last to hand in
  std::uint64_t longest_negotiation_ns = 0;
  std::uint64_t negotiations = 0;
};

class Coordinator final : public Operation, public LoopGuest, public std::enable_shared_from_this<Coordinator> {
 public:
  // Both groups have the same ranks; `machine_of` gives the number of each rank's machine. Throws Failure (invalid).
  Coordinator(std::shared_ptr<Engine> engine, std::shared_ptr<Group> control, std::shared_ptr<Group> data,
              std::string policy, PolicyOptions options, std::vector<int> machine_of);
  ~Coordinator() override;

  // Where the board of this machine lies in the arena of its first rank, which must tell the others before they `open`.
  std::uint64_t board_offset() const;
  // Each rank calls this once. From then on it may hand in requests.
  void open(std::uint64_t board_offset);

  // Throws Failure if an argument is invalid, or if the coordinator has failed or is closed.
  std::shared_ptr<PendingRequest> submit(const RequestArguments& arguments);
  std::shared_ptr<PendingRequest> join();
  // Engine::serve will return the id of this request once it is over.
  void announce(PendingRequest& pending);
  // See Policy::set_order; with policy `graph` alone.
  void set_order(const std::vector<std::vector<std::string>>& buffers);
  // See Policy::tune; on rank 0, with policy `board` alone.
  void tune(std::uint64_t fusion_bytes);
  // See Policy::use; on rank 0, with policy `switching` alone.
  void use(const std::string& name, const std::vector<std::vector<std::string>>& buffers);
  Policy::Use in_use();

  paceline::Counters counters();
  Totals totals();
  // Returns the records with numbers above `after`, in the order in which requests ended; old ones are forgotten.
  std::vector<Record> records(std::uint64_t after = 0);
  // Returns the warnings for the user since the last call. Engine::serve returns `warnings_id` when there are any.
  std::vector<std::string> warnings();
  std::uint64_t warnings_id() const { return warnings_id_; }
  // Large batches of all-reduces on channel 0 are counted in the data group's LargeCalls, if it has these. Where they
  // stop, no further batch begins on that channel, so that plans can change between the same two batches on all ranks;
  // Engine::serve then returns this id.
  std::uint64_t stops_id() const { return stops_id_; }
  // Requests that are not over fail, here and on ranks where they need this one. An engine that closes calls this.
  void close();

  bool step() override;
  bool complete() const override { return idle_; }
  // A rank that has left in good order may not be missed: see `deserter`.
  std::vector<int> missing() const override { return {}; }
  std::vector<int> absent() const override { return {}; }
  bool has_work() const override;
  const Operation& urgent() const override;
  std::vector<Waiting> waiting() const override;
  bool speaks_for_itself() const override { return false; }
  void group_failed(const Error& error) override;

  // PendingRequest calls these.
  std::vector<int> missing(const PendingRequest& pending) const;
  std::vector<int> absent(const PendingRequest& pending) const;
  void awaited(const PendingRequest& pending);

  // Does the same as `close`, for a caller that holds the engine's lock.
  void leave() override;

 protected:
  void begin() override {}
  void clear() override {}
  void let_go(const Error& error) override;

 private:
  using Now = Clock::time_point;
  static constexpr std::size_t kRecords = 8192;
  static constexpr std::size_t kNamesKept = 4096;
  static constexpr std::size_t kNoteBytes = 960;  // they fit into a record of any link

  struct Name {
    RequestPtr request;                                   // the last one, kept to be used again
    std::shared_ptr<PendingRequest> current;              // the one that the policy has
    std::deque<std::shared_ptr<PendingRequest>> waiting;  // the ones that wait for their turn
    bool issued_before = false;                           // all ranks have heard of this name
  };
  struct NameHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Names = std::unordered_map<std::string, Name, NameHash, std::equal_to<>>;

  struct Batch {
    std::uint64_t number = 0;  // on its channel
    std::uint64_t bytes = 0;
    std::vector<Carried> carried;
    std::unique_ptr<BatchWork> work;  // null until its turn has come
    std::int64_t large = -1;          // its number in Group::large_calls, -1 if it is not counted there
  };
  // Batches that are carried out one after the other.
  struct Stream {
    Stream(Coordinator& owner, std::shared_ptr<Group> own_group, std::uint32_t own_channel);

    std::shared_ptr<Group> group;
    std::uint32_t channel;
    std::uint64_t issued = 0;
    bool stopped = false;  // it has stopped before its next batch, and this was reported
    FusionMemory fusion;
    BatchContext context;
    std::deque<Batch> queue;
    bool ending = false;    // no batch comes beyond those that are due
    std::uint64_t due = 0;  // batches in all; other ranks may have begun some that this one has yet to issue
  };
  // A rank that has left.
  struct Departure {
    std::uint64_t ended = 0;  // the batches and joins that it had seen the end of
    std::string why;          // the error of requests that need it
  };
  enum NoteTag : std::int32_t { kWhole, kMoreFollows, kClosing, kAsk, kHave, kAwait };

  void check(const RequestArguments& arguments) const;
  void check_open(std::string_view request, std::string_view name = {}) const;
  RequestPtr request_for(const Name& name, const RequestArguments& arguments) const;
  void hand_in(Name& name, std::shared_ptr<PendingRequest> pending, Now now);
  void add(PendingRequest& pending, Now now);
  void settle(PendingRequest& pending, const Error& error = {});
  void follow_up();
  void get_going();

  bool advance(Now now);
  bool hear(Now now);
  bool end_synchronise(Now now);
  void end_join();
  bool joins() const { return join_ && join_->last_to_join < 0; }
  const Departure* deserter() const;
  void go_without(const Departure& departure);
  void hear_of_departure(const Note& note);
  void tell_of_departure();
  std::vector<int> known_missing(const PendingRequest& pending) const;
  std::vector<PendingRequest*> oldest_first() const;
  std::vector<int> silent(Now since) const;
  void ask(Now now);
  bool has(std::string_view name) const;
  void answer(const Note& note);
  void hear_of_wait(const Note& note);
  Clock::duration patience() const;
  bool act(Now now);
  void carry_out(Issue& action, Now now);
  void carry_out(Joined& action, Now now);
  void carry_out(paceline::Send& action, Now now);
  void carry_out(Synchronise& action, Now now);
  void carry_out(Sleep& action, Now now);
  void carry_out(Ring& action, Now now);
  void carry_out(Cancel& action, Now now);
  void carry_out(Warn& action, Now now);
  void ring() const;
  void tell(int to, std::int32_t tag, std::span<const std::byte> message);

  Stream* find_stream(std::uint32_t channel);
  Stream& stream_of(std::uint32_t channel);
  bool carry();
  bool carry(Stream& stream);
  static bool stops(const Stream& stream);
  void report_stop(Stream& stream);
  static void begin_batch(Stream& stream);
  void end_batch(Stream& stream);
  static void abandon(const BatchWork& work);
  void leave_board();
  void carry_weight(bool carries);

  const std::shared_ptr<Engine> engine_;
  LoopHost& loop_;  // the same engine
  const std::shared_ptr<Group> control_;
  const std::string policy_name_;
  const PolicyOptions options_;
  const Seat seat_;
  int leader_ = 0;  // the first rank of this machine
  std::unique_ptr<ArenaMemory> own_board_;
  std::span<std::byte> board_bytes_;
  std::vector<std::unique_ptr<BoardMemory>> boards_;
  std::unique_ptr<Policy> policy_;

  Names names_;
  std::vector<PendingRequest*> pending_;  // all requests that are not over
  std::shared_ptr<PendingRequest> join_;
  std::vector<std::vector<std::byte>> partial_;  // by rank: the parts of a message that have come so far
  std::uint64_t ended_ = 0;  // batches and joins that this rank has seen the end of; all see the same ones
  std::vector<Departure> departures_;

  std::vector<std::unique_ptr<Stream>> streams_;  // the first one is that of channel 0
  std::uint64_t busy_ = 0;
  bool submitting_ = false;
  bool rings_ = false;  // it rings at other ranks at the end of the step
  bool carries_ = false;
  std::uint64_t cpu_before_ = 0;
  bool failing_ = false;

  std::vector<std::uint64_t> words_;
  Handle synchronising_;
  Synchronise::Wait wait_ = Synchronise::Wait::spin;
  Now synchronised_since_;
  Now policy_wakes_ = Now::max();
  bool sleeps_ = false;  // the policy sleeps until then
  Now asks_ = Now::max();

  Totals totals_;
  std::vector<Record> records_;
  std::size_t next_record_ = 0;
  std::vector<std::string> warnings_;
  std::uint64_t own_id_ = 0;
  std::uint64_t warnings_id_ = 0;
  std::uint64_t stops_id_ = 0;
  bool idle_ = true;
  bool closed_ = false;
};

}  // namespace paceline
