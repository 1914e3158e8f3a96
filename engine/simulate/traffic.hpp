// The batches of a job on its network. All ranks issue the same batches on a channel, in the same order; a batch begins
// when all have issued it and the one before it is over, as they share the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "policy/policy.hpp"
#include "simulate/job_model.hpp"

namespace paceline::simulate {

class Traffic {
 public:
  Traffic(std::size_t size, Transfer transfer) : transfer_(std::move(transfer)), issued_(size) {}

  // A rank issues its next batch of a channel, of so many bytes in all. If it is the last rank to do so, the batch
  // begins as soon as it can, and the time at which it will be over is returned.
  std::optional<double> issue(int rank, Issue& action, double now);
  // The first of the batches under way is over. Returns its requests.
  std::vector<RequestPtr> end();

  // When the last batch began, or will, in seconds.
  double last_begun() const { return last_begun_; }
  std::uint64_t over() const { return over_; }

  // The batches that have begun, or will, since `forget` was called, in order.
  const std::vector<Carried>& carried() const { return carried_; }
  void forget() { carried_.clear(); }
  // The seconds of this span in which one of them was under way.
  double carrying(double from, double to) const;

 private:
  struct Batch {
    std::vector<RequestPtr> requests;
    std::size_t issued = 0;  // ranks
    double first = 0;        // seconds: the first rank issued it
  };

  double seconds(std::uint64_t bytes) const;

  const Transfer transfer_;
  std::vector<std::map<std::uint32_t, std::uint64_t>> issued_;   // by rank and channel: batches
  std::map<std::uint32_t, std::deque<Batch>> batches_;           // by channel
  std::deque<std::pair<std::uint32_t, std::size_t>> under_way_;  // channel and place, in order
  std::vector<Carried> carried_;
  double free_ = 0;  // the network, seconds
  double last_begun_ = 0;
  std::uint64_t over_ = 0;
};

// The bytes of a batch.
std::uint64_t bytes_of(const std::vector<RequestPtr>& requests);

}  // namespace paceline::simulate
