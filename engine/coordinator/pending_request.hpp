// A request that this rank has submitted to a coordinator, as an operation that callers can wait for. The coordinator
// carries it out; the engine's loop does not step it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/request_arguments.hpp"
#include "execute/operation.hpp"
#include "memory/arena.hpp"
#include "policy/request.hpp"

namespace paceline {

class Coordinator;

// What became of a request. Times are nanoseconds of CLOCK_MONOTONIC, or 0 for what did not happen.
struct Record {
  RequestPtr request;
  std::uint64_t batch = 0;
  std::int64_t submitted_ns = 0;
  std::int64_t negotiated_ns = 0;  // when it was issued
  std::int64_t packed_ns = 0;
  std::int64_t reduced_ns = 0;
  std::int64_t done_ns = 0;
  std::optional<bool> last;  // this rank was the last to submit it; nothing where it cannot know
  std::uint64_t number = 0;  // this rank's requests are numbered from 1, as they end
};

class PendingRequest final : public Operation, public std::enable_shared_from_this<PendingRequest> {
 public:
  using Callback = std::function<void(PendingRequest&)>;

  explicit PendingRequest(Coordinator& owner) : coordinator(owner) {
    probes = false;
  }  // the operations that carry it out do

  Coordinator& coordinator;  // lives at least until the request is over
  RequestPtr request;
  bool join = false;
  CollectiveCall call;              // as RequestArguments has it
  std::vector<std::size_t> counts;  // by rank: the elements for it, or in its part; afterwards those that it sent
  std::shared_ptr<ArenaMemory> output;
  std::shared_ptr<device::Moment> after;     // on a device: what the caller's stream had to do when it was submitted
  std::shared_ptr<const Allocate> allocate;  // on a device: see RequestArguments
  Callback callback;                         // is called once it is over
  int last_to_join = -1;
  Record record;
  bool issued = false;
  bool on_its_device = false;  // a device may be in its memory, see DeviceCalls::when_released
  // How its caller attends to it, also while it waits for its turn: by a callback or by asking again and again, or
  // blocked.
  bool wanted = false;
  bool blocks = false;
  std::vector<bool> submitted;  // by rank: it has said so when asked; empty before any rank is asked
  std::string in_vain;          // what a rank that has not submitted it waits for itself, and this rank has not
  bool told_in_vain = false;
  std::size_t place = 0;  // its place among the coordinator's pending requests

  // For example: all_reduce "layer3.weight" float32[64x3x7x7]
  std::string description() const override;
  std::string tensor() const override { return join ? std::string() : request->name; }
  bool step() override { return false; }
  bool complete() const override { return over(); }
  std::vector<int> missing() const override;
  std::vector<int> absent() const override { return {}; }
  std::vector<const Operation*> parts() const override;
  std::uint64_t number() const override;
  bool has_work() const override { return false; }
  void awaited() override;

 protected:
  void begin() override {}
  void clear() override {}
};

}  // namespace paceline
