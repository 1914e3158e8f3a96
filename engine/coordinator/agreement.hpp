// Drives a policy: tells it what happens on this rank and what others say, and does what it asks for so that ranks
// agree. What they have agreed on is left to the coordinator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/correspondence.hpp"
#include "coordinator/totals.hpp"
#include "coordinator/warnings.hpp"
#include "policy/policy.hpp"
#include "progress/collectives.hpp"

namespace paceline {

class Agreement {
 public:
  using Decision = std::variant<Issue, Joined, Cancel>;

  Agreement(Engine& engine, std::shared_ptr<Group> control, Correspondence& correspondence, Warnings& warnings,
            Totals& totals)
      : engine_(engine),
        control_(std::move(control)),
        correspondence_(correspondence),
        warnings_(warnings),
        totals_(totals) {}

  void open(std::unique_ptr<Policy> policy) { policy_ = std::move(policy); }
  bool is_open() const { return policy_ != nullptr; }
  Policy& policy() const { return *policy_; }

  // Tells the policy that its synchronisation is over, or its sleep, and has it look at what ranks share. Returns
  // whether there was anything to tell.
  bool look(Clock::time_point now);
  // Does what the policy wants, until it wants something that the coordinator must do; null once it wants nothing more.
  // With `hands_in` other ranks are not rung at before `ring_if_due`: they shall find this rank's part done.
  std::optional<Decision> next(Clock::time_point now, bool hands_in);
  void ring_if_due();

  // When the policy wants to be woken.
  Clock::time_point wakes() const { return wakes_; }
  // How the loop rests meanwhile. carries: whether batches are under way.
  Rest rest(bool carries) const;
  // Whether nothing is under way, and nothing will be before a request or a message comes.
  bool idle() const { return synchronising_ == nullptr && (!policy_->polls() || wakes_ == Clock::time_point::max()); }
  // The collective by which ranks synchronise; null if none is under way.
  const Handle& synchronising() const { return synchronising_; }
  // Ranks will not agree on anything any more.
  void give_up(const Error& error);
  void clear() { synchronising_.reset(); }

 private:
  bool end_synchronise(Clock::time_point now);
  void carry_out(paceline::Send& action, Clock::time_point now);
  void carry_out(Synchronise& action, Clock::time_point now);
  void carry_out(const Sleep& action, Clock::time_point now);
  void ring() const;

  Engine& engine_;
  const std::shared_ptr<Group> control_;
  Correspondence& correspondence_;
  Warnings& warnings_;
  Totals& totals_;
  std::unique_ptr<Policy> policy_;
  std::vector<std::uint64_t> words_;
  Handle synchronising_;
  Synchronise::Wait wait_ = Synchronise::Wait::spin;
  Clock::time_point synchronised_since_;
  Clock::time_point wakes_ = Clock::time_point::max();
  bool sleeps_ = false;  // the policy sleeps until then
  bool ring_due_ = false;
};

}  // namespace paceline
