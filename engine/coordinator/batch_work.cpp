#include "coordinator/batch_work.hpp"

#include <algorithm>
#include <bit>

namespace paceline {
namespace {

constexpr std::size_t kSmallest = std::size_t{64} << 10;

class Barrier final : public BatchWork {
 public:
  using BatchWork::BatchWork;

  // It is over at once: it would not have been issued if a rank were missing.
  bool step() override {
    if (carried_.front().own) context_.finished(*carried_.front().own);
    over_ = true;
    return true;
  }
  bool over() const override { return over_; }
  bool has_work() const override { return !over_; }

 private:
  bool over_ = false;
};

}  // namespace

std::byte* FusionMemory::at_least(std::size_t bytes) {
  if (!memory_ || memory_->bytes() < bytes) {
    memory_.reset();
    memory_ = std::make_unique<ArenaMemory>(arena_, std::bit_ceil(std::max(bytes, kSmallest)));
    arena_->use_huge_pages(memory_->data(), bytes);
  }
  return memory_->data();
}

bool BatchWork::moved() {
  if (!std::ranges::all_of(moving_, [](const Handle& handle) { return handle->over(); })) return false;
  for (const Handle& handle : moving_)
    if (handle->state() == Operation::State::failed) throw Failure(handle->error());
  moving_.clear();
  return true;
}

CollectiveCall call_of(const Carried& carried) {
  const Fingerprint& what = carried.request->what;
  CollectiveCall call = carried.own != nullptr ? carried.own->call
                                               : CollectiveCall{.collective = what.collective,
                                                                .count = what.count,
                                                                .dtype = what.dtype,
                                                                .op = what.op,
                                                                .root = what.root};
  call.codec = what.codec == Codec::none ? std::nullopt : std::optional(what.codec);
  return call;
}

std::unique_ptr<BatchWork> start_batch(const BatchContext& context, std::vector<Carried> batch) {
  if (batch.front().request->on_device) return carry_on_device(context, std::move(batch));
  switch (batch.front().request->what.collective) {
    case Collective::all_reduce: return carry_all_reduce(context, std::move(batch));
    case Collective::all_gather:
    case Collective::all_to_all: return carry_exchange(context, std::move(batch));
    case Collective::broadcast: return carry_broadcast(context, std::move(batch));
    case Collective::reduce_scatter: return carry_reduce_scatter(context, std::move(batch));
    case Collective::barrier: return std::make_unique<Barrier>(context, std::move(batch));
    default: throw Failure(ErrorKind::invalid, "a coordinator does not carry out this collective");
  }
}

}  // namespace paceline
