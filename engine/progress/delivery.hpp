// What arrives over the links, and the group that each message is for.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "link/link.hpp"
#include "progress/culprits.hpp"
#include "progress/failures.hpp"
#include "progress/groups.hpp"
#include "progress/peers.hpp"
#include "progress/questions.hpp"
#include "progress/wakeups.hpp"
#include "progress/whereabouts.hpp"

namespace paceline {

class Delivery final : public Inbox {
 public:
  Delivery(Peers& peers, Wakeups& wakeups, Groups& groups, Whereabouts& whereabouts, Questions& questions,
           Culprits& culprits, Failures& failures)
      : peers_(peers),
        wakeups_(wakeups),
        groups_(groups),
        whereabouts_(whereabouts),
        questions_(questions),
        culprits_(culprits),
        failures_(failures) {}

  std::unique_ptr<Arrival> new_arrival() override;
  void deliver(std::unique_ptr<Arrival> arrival) override;
  StreamSink* expect(int peer, const Header& header) override;
  void lost(int peer, const std::string& reason) override;
  void garbled(int peer, const std::string& what) override;

  // Delivers again what has come for groups that this rank had yet to make.
  void deliver_early();
  void forget_early() {
    early_.clear();
    missed_.clear();
  }

 private:
  void deliver_to(Group& group, int from, std::unique_ptr<Arrival> arrival);
  void recycle(std::unique_ptr<Arrival> arrival);

  Peers& peers_;
  Wakeups& wakeups_;
  Groups& groups_;
  Whereabouts& whereabouts_;
  Questions& questions_;
  Culprits& culprits_;
  Failures& failures_;
  std::vector<std::unique_ptr<Arrival>> early_;    // for groups that this rank has yet to make
  std::unordered_map<std::uint64_t, int> missed_;  // channels for which more has come, and who sent it
  std::vector<std::unique_ptr<Arrival>> pool_;
};

}  // namespace paceline
