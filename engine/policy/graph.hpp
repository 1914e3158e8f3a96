// The policy `graph` (TOPO, of "Load imbalance in data processing for large-scale deep learning", section IV-D): the
// order of requests and how they are fused is known beforehand, the same on all ranks.
//
// A rank issues buffer k when it has submitted all of it and has issued buffer k-1; ranks do not talk to each other.
// Requests that the order does not name go by the board. So does the first step, in which ranks find out whether they
// agree.
//
// A rank cannot go on if a caller waits while a buffer is not full, or if a request is not what it was. A caller that
// is not blocked, and is told or asks when a request is over, may submit more; if it does not for some time, it waits,
// too. The rank then says in
// the board's log from which buffer on it deviates. It has given nothing to that buffer, so no rank has completed that
// or a later one: these buffers are taken back and negotiated on the board. Once the steps are complete again there,
// and every rank has issued everything before the deviation, all begin a new run at the same place of the log, on a new
// channel.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/board.hpp"
#include "policy/tally.hpp"

namespace paceline {

class Graph : public Board {
 public:
  Graph(const PolicyOptions& options, const Seat& seat, BoardMemory& memory);

  // Throws Failure (invalid) for an order that names something twice, or has an empty buffer.
  static void check_order(const std::vector<std::vector<std::string>>& buffers);
  void set_order(const std::vector<std::vector<std::string>>& buffers) override;
  // Ranks issue in order without the log, so nothing can change for all at once.
  void tune(std::uint64_t) override { refuse_to_tune(); }
  void submit(RequestPtr request, double now) override;
  void join(double now) override;
  void awaited(const Request& request, double now) override;
  void wanted(const Request& request, double now) override;
  void wake(double now) override;
  std::optional<Action> next() override;
  void rest(std::vector<std::uint64_t> words) override;

 protected:
  void ordered(std::span<const std::uint64_t> entry) override;
  void round_over(const RequestPtr& request, bool failed) override;
  void was_cut() override;
  void all_have_joined() override;
  bool may_rest() const override { return !running_ && drained_; }
  void came_to_rest() override;
  void could_not_rest(const Words& words) override;
  bool holds_requests() const override { return filled_ > 0 || wants_to_join_ || deviating_ || !held_.empty(); }

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  // The questions for which ranks are counted, as flags of `start` and `started`.
  enum Count : std::uint8_t { order_taken, run_drained };
  // A flag of `deviate`: the reason is not something that was submitted.
  static constexpr std::uint8_t kOnPurpose = 1;

  // What the order says about a name, and what became of it.
  struct Place {
    std::uint32_t buffer = 0;
    std::uint64_t negotiated = 0;  // how often the board issued it since the deviation, or since there is an order
    RequestPtr known;              // the last request that was issued
    RequestPtr slot;               // the request submitted for the next buffer that holds it
    std::uint64_t next = 0;        // the number of that buffer in the run
    RequestPtr issued;             // the last request that was issued in the run
  };

  Place* find(const std::string& name);
  void take_order();
  void forget_run();
  void started(std::uint8_t what, std::uint64_t number, bool differ);
  void fill(Place& place, RequestPtr request);
  bool holds(const Request& request);
  void issue_full();
  void deviate();
  void deviated(std::uint64_t from, int by, bool on_purpose);
  void retire();
  void tell_drained();
  bool complete_steps() const;
  void begin_run();
  std::uint64_t first_issue(std::uint64_t buffer) const;
  std::uint64_t run_word() const { return std::uint64_t{rests()} << 32 | run_; }

  const std::uint64_t fusion_bytes_;
  std::vector<std::vector<std::string>> waiting_order_;  // the new order, until all ranks have it
  bool starting_ = false;
  std::vector<RequestPtr> held_;  // requests submitted until then
  Tally tally_;

  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::vector<Place> places_;
  std::vector<std::vector<std::uint32_t>> buffers_;  // the places in each buffer
  std::vector<std::uint64_t> issues_before_;         // by buffer: the Issues of a step before it; at the end, of all
  std::vector<std::uint32_t> full_;                  // by buffer: the slots that are filled
  std::uint32_t filled_ = 0;

  std::uint32_t run_ = 0;     // the last run that has begun, which is also its channel
  bool running_ = false;      // no rank has deviated
  std::uint64_t next_ = 0;    // the first buffer of the run that this rank has not issued
  std::uint64_t limit_ = 0;   // buffers from here on go by the board
  bool deviating_ = false;    // this rank has said that it deviates, and the entry is on its way
  bool told_drained_ = true;  // this rank has said that it has issued everything before the limit
  bool drained_ = true;       // all ranks have issued everything before the limit
  bool negotiated_any_ = false;
  bool wants_to_join_ = false;
  std::optional<std::vector<std::uint64_t>> rest_words_;  // on rank 0: the words of a rest that it has yet to tell
  bool said_ = false;
  std::vector<const Request*> awaited_;  // requests that a caller waits for, and that are not issued
  std::vector<const Request*> wanted_;   // requests of callers that are not blocked, and may submit more
  double came_ = 0;                      // when this rank last submitted something
  bool sleeps_ = false;
  std::vector<RequestPtr> together_;
};

}  // namespace paceline
