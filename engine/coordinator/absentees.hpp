// Which ranks a coordinator's requests wait for. Warnings and deadlines name them.
#pragma once

#include <vector>

#include "coordinator/agreement.hpp"
#include "coordinator/batches.hpp"

namespace paceline {

class Absentees {
 public:
  Absentees(const Agreement& agreement, const Batches& batches) : agreement_(agreement), batches_(batches) {}

  // The ranks that the policy knows to be missing. It does not tell which ranks have joined.
  std::vector<int> known(const PendingRequest& pending) const;
  // The ranks that have not submitted it, or, once it is issued, those that do not take part in what is under way.
  std::vector<int> missing(const PendingRequest& pending) const;
  // What is under way before it, or carries it out, if it waits for that; else itself.
  std::vector<const Operation*> parts(const PendingRequest& pending) const;

 private:
  std::vector<int> yet_to_submit(const PendingRequest& pending) const;
  std::vector<const Operation*> under_way() const;

  const Agreement& agreement_;
  const Batches& batches_;
};

}  // namespace paceline
