// Leaving a group whose last collective had a root. Between machines no rank hears from all others in such a
// collective: where each takes itself for the root, each is done when it has sent its data. So before a rank leaves, it
// hears from every other rank that this one began the same collective.
#pragma once

#include <functional>
#include <vector>

#include "execute/group.hpp"

namespace paceline {

class Parting final : public Operation {
 public:
  // Another rank may begin the last collective much later; it then compares what this rank has told it.
  static constexpr auto kLongest = std::chrono::seconds(1);

  // The last collective of `left`; `reaches` tells whether anything can still come from a rank.
  Parting(const Group& left, std::function<bool(int rank)> reaches);

  bool step() override { return false; }
  bool complete() const override { return given_up_ || unheard().empty() || Clock::now() >= wake; }
  // A rank that has left in good order may not be missed.
  std::vector<int> missing() const override { return {}; }
  std::vector<int> absent() const override { return unheard(); }
  bool has_work() const override { return complete(); }
  // Whatever else goes wrong in a group concerns nobody who leaves it.
  void group_failed(const Error& error) override;

 protected:
  void begin() override {}
  void clear() override {}

 private:
  std::vector<int> unheard() const;

  std::function<bool(int rank)> reaches_;
  bool given_up_ = false;
};

}  // namespace paceline
