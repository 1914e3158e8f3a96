// Which ranks a coordinator's requests wait for. Warnings and deadlines name them.
#pragma once

#include <vector>

#include "coordinator/agreement.hpp"
#include "coordinator/batches.hpp"

namespace paceline {

class Absentees {
 public:
  Absentees(const Group& control, const Agreement& agreement, const Batches& batches)
      : control_(control), agreement_(agreement), batches_(batches) {}

  // The ranks that the policy knows to be missing. It does not tell which ranks have joined.
  std::vector<int> known(const PendingRequest& pending) const;
  // The ranks that have not handed it in, or, once it is issued, those that do not take part in what is under way.
  std::vector<int> missing(const PendingRequest& pending) const;
  // Those of them that do not wait themselves, as far as they have told.
  std::vector<int> absent(const PendingRequest& pending) const;

 private:
  std::vector<int> behind_all() const;

  const Group& control_;
  const Agreement& agreement_;
  const Batches& batches_;
};

}  // namespace paceline
