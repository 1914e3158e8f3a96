// Carries out the requests of a batch that go together, a bounded step at a time: it packs them, moves them, and
// unpacks them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "coordinator/pending_request.hpp"
#include "progress/collectives.hpp"

namespace paceline {

// Memory in which tensors lie one behind the other while they are reduced. It grows when it must, and is never given
// back before the end.
class FusionMemory {
 public:
  explicit FusionMemory(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  Arena& arena() const { return *arena_; }
  std::shared_ptr<ArenaMemory> output(std::size_t bytes) const { return std::make_shared<ArenaMemory>(arena_, bytes); }
  // Throws std::bad_alloc.
  std::byte* at_least(std::size_t bytes);

 private:
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<ArenaMemory> memory_;
};

// A request of a batch; `own` is null if this rank has not submitted it, because it has joined.
struct Carried {
  RequestPtr request;
  std::shared_ptr<PendingRequest> own;
};

// Returns the call of a request, without memory if this rank has not submitted it. A request without a codec leaves
// that to the group.
CollectiveCall call_of(const Carried& carried);

class DeviceCalls;

struct BatchContext {
  Engine& engine;
  Group& group;  // its collectives carry the data, in the same order on all ranks
  FusionMemory& fusion;
  DeviceCalls& device_calls;
  bool revocable;  // it may be taken back until all ranks have begun it; no caller's memory is written before that
  std::function<void(PendingRequest&)> finished;
};

class BatchWork {
 public:
  BatchWork(const BatchContext& context, std::vector<Carried> carried)
      : context_(context), carried_(std::move(carried)) {}
  virtual ~BatchWork() = default;
  BatchWork(const BatchWork&) = delete;
  BatchWork& operator=(const BatchWork&) = delete;

  // Moves on by a bounded amount of work. Returns true if anything moved. Throws Failure, or std::bad_alloc.
  virtual bool step() = 0;
  virtual bool over() const = 0;
  // Whether `step` has something to do that does not wait for a collective.
  virtual bool has_work() const = 0;
  // The collectives under way.
  std::span<const Handle> moving() const { return moving_; }
  std::span<const Carried> carried() const { return carried_; }

 protected:
  // Whether the collectives under way are over.
  bool moved();

  const BatchContext& context_;
  const std::vector<Carried> carried_;
  std::vector<Handle> moving_;
};

// Returns whether an all_reduce in a batch of several is packed with others of its kind.
bool is_packed(const Request& request);

// Makes the work for the requests of a batch, which is one request, or several that fuse.
std::unique_ptr<BatchWork> start_batch(const BatchContext& context, std::vector<Carried> batch);

std::unique_ptr<BatchWork> carry_all_reduce(const BatchContext& context, std::vector<Carried> fused);
std::unique_ptr<BatchWork> carry_broadcast(const BatchContext& context, std::vector<Carried> one);
std::unique_ptr<BatchWork> carry_exchange(const BatchContext& context, std::vector<Carried> one);
std::unique_ptr<BatchWork> carry_reduce_scatter(const BatchContext& context, std::vector<Carried> one);
std::unique_ptr<BatchWork> carry_on_device(const BatchContext& context, std::vector<Carried> batch);

}  // namespace paceline
