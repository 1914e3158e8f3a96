// The policy `graph` (TOPO, of "Load imbalance in data processing for large-scale deep learning", section IV-D): the
// order of requests and how they are fused is known beforehand, the same on all ranks.
//
// Buffer k is issued when this rank has handed in all of it and k-1 was issued; ranks do not speak to each other. What
// the order does not name goes by the board. So does the first step, in which ranks find out whether they agree.
//
// A rank that cannot go on, because somebody waits and a buffer is not full, or a request is not what it was, says in
// the board's log from which buffer on. It has given nothing to that buffer, so nobody has completed it or a later one:
// those are taken back and negotiated on the board. Once the steps are complete again there, and every rank has issued
// what came before the deviation, all begin a new run at the same place of the log, on a new channel.
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
  // What all ranks are counted for, in `flags` of start and started.
  enum Count : std::uint8_t { order_taken, run_drained };
  // In `flags` of deviate: not because of what was handed in.
  static constexpr std::uint8_t kOnPurpose = 1;

  // What the order says of a name, and what became of it.
  struct Place {
    std::uint32_t buffer = 0;
    std::uint64_t negotiated = 0;  // times that the board issued it since the deviation, or since there is an order
    RequestPtr known;              // the last that was issued
    RequestPtr slot;               // handed in for the next buffer that it is in
    std::uint64_t next = 0;        // number of that buffer in the run
    RequestPtr issued;             // the last that was issued in the run
  };

  Place* find(const std::string& name);
  void take_order();
  void forget_run();
  void started(std::uint8_t what, std::uint64_t number, bool differ);
  void hand_in(Place& place, RequestPtr request);
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
  std::vector<std::vector<std::string>> waiting_order_;  // until all ranks have it
  bool starting_ = false;
  std::vector<RequestPtr> held_;  // handed in until then
  Tally tally_;

  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::vector<Place> places_;
  std::vector<std::vector<std::uint32_t>> buffers_;  // of places
  std::vector<std::uint64_t> issues_before_;         // in a step, by buffer; at last those of a whole step
  std::vector<std::uint32_t> full_;                  // by buffer: slots filled
  std::uint32_t filled_ = 0;

  std::uint32_t run_ = 0;     // the last one begun; its channel
  bool running_ = false;      // nobody has deviated
  std::uint64_t next_ = 0;    // the first buffer of the run that this rank has not issued
  std::uint64_t limit_ = 0;   // buffers from here on go by the board
  bool deviating_ = false;    // this rank's word of it is on its way
  bool told_drained_ = true;  // that this rank has issued what came before the limit
  bool drained_ = true;       // all ranks have
  bool negotiated_any_ = false;
  bool wants_to_join_ = false;
  std::optional<std::vector<std::uint64_t>> rest_words_;  // on rank 0: not said yet
  bool said_ = false;
  std::vector<const Request*> awaited_;  // and not issued
  std::vector<RequestPtr> together_;
};

}  // namespace paceline
