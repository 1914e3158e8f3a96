// A message to one rank, or from one or any, as a call of its own.
#pragma once

#include <vector>

#include "execute/operation.hpp"
#include "message/context.hpp"

namespace paceline {

class PointToPoint final : public Operation {
 public:
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int peer = -1;  // a group rank; -1 to receive from any
  std::int32_t tag = 0;
  int* sender = nullptr;  // is told the group rank that a message came from, if the caller blocks

  bool step() override;
  bool complete() const override;
  int source() const override { return receive_.actual_source; }
  std::uint64_t number() const override { return static_cast<std::uint32_t>(tag); }
  std::vector<int> missing() const override;
  std::vector<int> absent() const override { return {}; }
  bool waits_for_any() const override { return !sends() && peer < 0 && receive_.actual_source < 0; }
  bool has_work() const override;
  bool awaits_acknowledgements() const override { return sends() && !send_.done; }
  bool read_remotely() const override { return context_.read_remotely; }
  bool needs_network() const override { return network_; }
  bool patient() const override { return patient_ && !notify && !trouble_; }

 protected:
  void begin() override;
  void end() override;
  void let_go(const Error&) override;
  void clear() override;

 private:
  bool sends() const { return what.collective == Collective::send; }

  Context context_;
  // The link keeps a pointer to one of these.
  Message send_;
  Receive receive_;
  bool network_ = false;
  bool patient_ = false;  // unless its end is to be reported, or it is in trouble
};

}  // namespace paceline
