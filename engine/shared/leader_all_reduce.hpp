// A small all-reduce among several machines, on a machine where one rank leads: the ranks show the leader their data in
// the segment that they share, the leader carries out the rest of the plan with other machines by messages, and then
// shows them the result.
#pragma once

#include <span>

#include "message/message_operation.hpp"
#include "program/plan.hpp"
#include "shared/one_shot.hpp"

namespace paceline {

// Returns the rank that leads `machine`, which holds all ranks of one machine: this rank combines their data in the
// first level of `plan`, and the others take no part in later levels. Returns -1 if there is no such rank.
int leader_of(const Plan& plan, std::span<const int> machine);

class LeaderAllReduce final : public Operation {
 public:
  // The caller fills in these parts before the start. Data go to the leader and come from it; in between this rank
  // exchanges data with other machines if it `leads`.
  OneShot gathering;
  OneShot showing;
  MessageOperation between;
  bool leads = false;

  bool step() override;
  bool complete() const override { return phase_ == Phase::showing && showing.complete(); }
  std::vector<int> missing() const override { return current().missing(); }
  std::vector<int> absent() const override;
  bool has_work() const override { return current().complete() || current().has_work(); }
  bool awaits_acknowledgements() const override { return leads && between.awaits_acknowledgements(); }
  bool read_remotely() const override { return between.read_remotely(); }
  bool needs_links() const override { return leads || gathering.needs_links(); }
  int neighbour() const override { return current().neighbour(); }
  bool crowded(const cpu_set_t& cpus) const override { return current().crowded(cpus); }

 protected:
  void begin() override;
  void end() override { showing.finish(); }
  void let_go(const Error& error) override;
  void clear() override;

 private:
  enum class Phase : std::uint8_t { gathering, between, showing };

  const Operation& current() const;
  bool advance(Operation& part);

  Phase phase_ = Phase::gathering;
};

}  // namespace paceline
