// The policy `board`, which is Paceline's own: it has no cycle and no synchronisation, only news.
//
// On one machine each rank marks in shared memory what it has submitted. The rank that completes the marks of a request
// writes that into a log, which all ranks follow. The requests between two cuts of the log become batches, the same on
// all ranks. A rank that is idle and sees requests that are not cut off yet writes a cut. So a request that a caller
// waits for goes out at once, and requests that become ready while a batch is carried out go out together. In a job of
// one machine, requests are gathered for a short time as long as no caller waits (see Holding).
//
// Between machines, the rank that completes a machine's marks sends one message to rank 0. Rank 0 alone writes the log,
// and sends what it writes to the lowest rank of every other machine, which puts it into that machine's log.
//
// What ranks know of names follows from the log, too. A new description is written into it, and gets a slot. When all
// slots are in use, it gets the one that was used least recently, even if that is marked: marks of a round that is over
// do not count, and their ranks describe the request anew. That shows that more requests are under way than there are
// slots, and rank 0 then doubles them. If a description differs from what the name last stood for,
// it is added to the slot for the rest of the round. If the round ends with ranks that mark different descriptions, the
// request fails.
//
// A rank that has joined publishes up to which place it has followed the log with all its requests marked. It counts as
// ready in all slots defined before that place, even if it has not marked them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "policy/board_memory.hpp"
#include "policy/dictionary.hpp"
#include "policy/entry.hpp"
#include "policy/holding.hpp"
#include "policy/make.hpp"
#include "policy/orderer.hpp"
#include "policy/policy.hpp"
#include "policy/verdict.hpp"
#include "policy/window.hpp"

namespace paceline {

class Board : public Policy {
 public:
  Board(const PolicyOptions& options, const Seat& seat, BoardMemory& memory);

  void submit(RequestPtr request, double now) override;
  void join(double now) override;
  void receive(int from, std::span<const std::byte> message, double now) override;
  void synchronised(std::span<const std::uint64_t>, double) override {}
  void wake(double now) override;
  void look(double now) override;
  void awaited(const Request& request, double now) override { wanted(request, now); }
  void wanted(const Request& request, double now) override;
  void busy(std::uint64_t bytes) override { busy_ = bytes; }
  void tune(std::uint64_t fusion_bytes) override;
  std::optional<Action> next() override;
  void rest(std::vector<std::uint64_t> words) override;
  std::optional<Rest> rested() override { return std::exchange(rested_, std::nullopt); }
  std::vector<RequestPtr> take_back() override { return std::exchange(back_, {}); }
  void resume() override { at_rest_ = false; }
  std::vector<int> missing(const Request& request) const override;
  bool sees_all() const override { return orders(); }

 protected:
  // `graph` overrides these, and uses the board for what it cannot do alone.
  // They are called for an entry of the log that the board does not know; when a request's round is over; when issued
  // requests are cut off; and when all ranks have joined.
  virtual void ordered(std::span<const std::uint64_t>) {}
  virtual void round_over(const RequestPtr&, bool /*failed*/) {}
  virtual void was_cut() {}
  virtual void all_have_joined() {}
  // Whether this rank has requests that are not on the board. As long as it has some, it has not joined.
  virtual bool holds_requests() const { return false; }

  // They are called at a place of the log where no rank has joined. The first tells whether all ranks can come to rest
  // there; the others hear that they did, or that they did not, with the words of rank 0, which had asked for it.
  virtual bool may_rest() const { return true; }
  virtual void came_to_rest() {}
  virtual void could_not_rest(const Words& /*words*/) {}

  // Brings an entry into the log of all.
  void order(std::span<const std::uint64_t> entry);
  // Makes every rank forget, at one place of the log, what it has submitted under this name; returns the request of
  // this rank, if it has one.
  RequestPtr withdraw(std::string_view name);
  // Whether a request of this rank is on the board, or on its way there.
  bool has(const Request& request) const;
  void give(Action action);
  void give(std::vector<Issue>& batches);
  void settle();
  bool anybody_joins() const { return joins_ > 0; }
  bool joins() const { return joining_; }
  std::uint32_t rests() const { return rests_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  bool alone() const { return machines_ == 1; }
  bool orders() const { return alone() || rank_ == 0; }

  // Requests on their way to the log.
  void place(RequestPtr request, bool again = false);
  void arrive(std::uint32_t slot, RequestPtr request, std::uint32_t number);
  bool gather(std::uint32_t slot, Report& report) const;
  bool holds() const;
  void check(std::uint32_t slot);
  void log(std::span<const std::uint64_t> entry);
  void notify(EntryKind kind);

  // The log.
  bool place_evicted();
  void make_room();
  void apply(std::span<const std::uint64_t> entry);
  void apply_define(std::span<const std::uint64_t> entry);
  void apply_over(std::span<const std::uint64_t> entry);
  void cut();
  void apply_rest(std::span<const std::uint64_t> entry);
  void come_to_rest();
  void all_joined(int last);

  // Joining.
  void publish();
  void tell_full();

  bool is_sound(int from, std::span<const std::uint64_t> entry) const;
  bool covers(std::uint64_t joined, std::uint64_t position) const;
  void flush_messages();

  const int rank_;
  BoardMemory& memory_;
  std::vector<int> locals_;  // the ranks of this machine, in the order of the group
  int size_ = 1;
  int local_ = 0;  // this rank's number among them
  int machines_ = 1;
  std::vector<int> leaders_;  // on rank 0: the lowest rank of every other machine

  Dictionary dictionary_;
  std::map<std::string_view, RequestPtr> unplaced_;  // requests whose descriptions are on the way to the log
  std::vector<RequestPtr> evicted_;                  // requests that must be described anew
  std::uint32_t under_way_ = 0;
  Window window_;
  Holding holding_;
  std::uint64_t busy_ = 0;

  std::uint64_t position_ = 0;  // up to where this rank has read the log
  std::size_t read_since_ring_ = 0;
  Words entry_;
  Words written_;
  std::vector<Issue> batches_;
  std::deque<Words> owed_;  // entries for which the log had no room
  bool following_ = false;
  bool growing_ = false;  // on rank 0: more slots are on their way to the log
  bool cutting_ = false;  // a cut of this rank is on its way to the log

  std::unique_ptr<Orderer> orderer_;
  std::deque<std::pair<int, Words>> inbox_;  // entries for the orderer, and the ranks that sent them

  std::uint64_t epoch_ = 0;  // how often all ranks have joined
  bool joining_ = false;
  bool settled_ = false;
  bool published_ = false;
  std::uint64_t told_full_ = 0;
  std::vector<std::uint32_t> fresh_;  // slots defined since the last publication
  int joins_ = 0;                     // joins in the log since this epoch began
  int settles_ = 0;
  int last_joined_ = 0;

  Words resting_;  // the words of a rest that were read so far
  bool at_rest_ = false;
  std::uint32_t rests_ = 0;  // how often ranks have rested; what was said before a rest does not count after it
  std::optional<Rest> rested_;
  std::vector<RequestPtr> back_;

  bool ring_ = false;
  Words to_orderer_;
  Words to_leaders_;
  bool to_leaders_due_ = false;
  std::deque<Send> sends_;
  std::deque<Action> actions_;
};

}  // namespace paceline
