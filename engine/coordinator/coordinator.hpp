// Carries out the requests that ranks submit by name, in any order: it tells a policy what happens, and moves the data
// of the batches that the policy issues.
//
// It is an operation of the engine's one loop, under way for as long as a request of this rank is, or its policy polls.
// Its control group carries the policy's own messages, its data groups carry batches.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/absentees.hpp"
#include "coordinator/agreement.hpp"
#include "coordinator/batches.hpp"
#include "coordinator/boards.hpp"
#include "coordinator/correspondence.hpp"
#include "coordinator/departures.hpp"
#include "coordinator/inquiries.hpp"
#include "coordinator/request_arguments.hpp"
#include "coordinator/requests.hpp"
#include "coordinator/totals.hpp"
#include "coordinator/warnings.hpp"
#include "policy/make.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Coordinator final : public Operation, public LoopGuest, public std::enable_shared_from_this<Coordinator> {
 public:
  // Both groups have the same ranks; `machine_of` gives the number of each rank's machine. Throws Failure (invalid).
  Coordinator(const std::shared_ptr<Engine>& engine, const std::shared_ptr<Group>& control,
              const std::shared_ptr<Group>& data, std::string policy, PolicyOptions options,
              std::vector<int> machine_of);
  ~Coordinator() override;

  // Where the board of this machine lies in the arena of its first rank, which must tell the others before they `open`.
  std::uint64_t board_offset() const { return boards_.offset(); }
  // Each rank calls this once. From then on it may submit requests.
  void open(std::uint64_t board_offset);

  // Throws Failure if an argument is invalid, or if the coordinator has failed or is closed; a device that fails fails
  // the coordinator. Once the request is over, well or not, the engine's notifier calls `callback`, if there is one.
  std::shared_ptr<PendingRequest> submit(const RequestArguments& arguments, PendingRequest::Callback callback = {});
  // Throws Failure (invalid) if an argument is.
  void check(const RequestArguments& arguments) const;
  std::shared_ptr<PendingRequest> join();
  // Engine::notifications will return the id of this request once it is over.
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
  // Its caller has asked whether this request is over, and will ask again.
  void polled(PendingRequest& pending);
  // Returns the warnings for the user since the last call. Engine::notifications returns `warnings_id` when there are
  // any.
  std::vector<std::string> warnings();
  std::uint64_t warnings_id() const { return warnings_.id(); }
  // Large batches of all-reduces on channel 0 are counted in the data group's LargeCalls, if it has these. Where they
  // stop, no further batch begins on that channel, so that plans can change between the same two batches on all ranks;
  // Engine::notifications then returns this id.
  std::uint64_t stops_id() const { return batches_.stops_id(); }
  // Requests that are not over fail, here and on ranks where they need this one. An engine that closes calls this.
  // Does nothing in a forked child.
  void close();
  // Takes no lock: whether nothing can be submitted any more because somebody has closed it.
  bool closed() const { return closed_; }
  // Does the same as `close`, for a caller that holds the engine's lock.
  void leave() override;

  bool step() override;
  bool complete() const override { return idle_; }
  // A rank that has left in good order may not be missed: see Departures.
  std::vector<int> missing() const override { return {}; }
  std::vector<int> absent() const override { return {}; }
  bool has_work() const override { return batches_.has_work(); }
  const Operation& urgent() const override;
  void postpone(Clock::time_point from, Clock::time_point to, Clock::duration usual) override;
  std::vector<Waiting> waiting() const override;
  bool speaks_for_itself() const override { return false; }
  void group_failed(const Error& error) override;

  // PendingRequest calls these.
  std::vector<int> missing(const PendingRequest& pending) const { return absentees_.missing(pending); }
  std::vector<const Operation*> parts(const PendingRequest& pending) const { return absentees_.parts(pending); }
  void awaited(PendingRequest& pending);

 protected:
  void begin() override {}
  void clear() override {}
  void let_go(const Error& error) override;

 private:
  using Now = Clock::time_point;

  // The lock is held while it is made.
  Coordinator(std::shared_ptr<Engine> engine, std::shared_ptr<Group> control, const std::shared_ptr<Group>& data,
              std::string policy, PolicyOptions options, Seat seat, const std::unique_lock<std::mutex>& lock);

  std::shared_ptr<device::Moment> moment_of(const RequestArguments& arguments);
  void check_open(std::string_view request, std::string_view name = {}) const;
  void resume();
  void step_now();
  void want(PendingRequest& pending);

  bool advance(Now now);
  bool receive(Now now);
  bool act(Now now);
  void carry_out(Issue& action);
  void carry_out(const Cancel& action);
  void carry_out(const Joined& action);
  void count_negotiation(const PendingRequest& issued);
  bool advance_batches();
  void end_join();
  void ask(Now now);
  void stop_agreeing(const Error& error);
  void carry_weight(bool carries);

  bool joins() const { return join_ && join_->last_to_join < 0; }
  // The batches and joins that this rank has seen the end of; all see the same ones.
  std::uint64_t ended() const { return batches_.ended() + ended_without_batch_; }

  const std::shared_ptr<Engine> engine_;
  LoopHost& loop_;  // the same engine
  const std::shared_ptr<Group> control_;
  const std::string policy_name_;
  const PolicyOptions options_;
  const Seat seat_;

  Totals totals_;
  Warnings warnings_;
  Boards boards_;
  Correspondence correspondence_;
  Agreement agreement_;
  Batches batches_;
  Requests requests_;
  Absentees absentees_;
  Departures departures_;
  Inquiries inquiries_;

  std::shared_ptr<PendingRequest> join_;
  std::uint64_t ended_without_batch_ = 0;
  Now asks_ = Now::max();
  bool submitting_ = false;
  bool carries_ = false;
  bool idle_ = true;
  std::atomic<bool> closed_ = false;
  const std::uint64_t cpu_before_;
  const std::uint64_t own_id_;
};

}  // namespace paceline
