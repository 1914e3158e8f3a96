#include "progress/carriage.hpp"

#include <algorithm>

namespace paceline {
namespace {

// Whether two requests go in one buffer.
bool fit(const Request& one, const Request& other) {
  return one.what.collective == Collective::all_reduce && other.what.collective == Collective::all_reduce &&
         one.what.dtype == other.what.dtype && one.what.op == other.what.op && one.prescale == other.prescale &&
         one.postscale == other.postscale;
}

class Barrier final : public Carriage {
 public:
  Barrier(const Surroundings& around, Carried carried) : Carriage(around), carried_(std::move(carried)) {}

  // That it was issued says that all ranks are there.
  bool step() override {
    if (carried_.own) around_.finished(*carried_.own);
    over_ = true;
    return true;
  }
  bool over() const override { return over_; }
  bool has_work() const override { return !over_; }

 private:
  Carried carried_;
  bool over_ = false;
};

std::unique_ptr<Carriage> carry(const Surroundings& around, std::vector<Carried> part) {
  switch (part.front().request->what.collective) {
    case Collective::all_reduce: return carry_all_reduce(around, std::move(part));
    case Collective::all_gather: return carry_all_gather(around, std::move(part));
    case Collective::broadcast: return carry_broadcast(around, std::move(part.front()));
    case Collective::all_to_all: return carry_all_to_all(around, std::move(part.front()));
    case Collective::reduce_scatter: return carry_reduce_scatter(around, std::move(part.front()));
    case Collective::barrier: return std::make_unique<Barrier>(around, std::move(part.front()));
    default: throw Failure(ErrorKind::invalid, "a coordinator does not carry out this collective");
  }
}

}  // namespace

std::byte* FusionMemory::at_least(std::size_t bytes) {
  if (!memory_ || memory_->bytes() < bytes) {
    memory_.reset();
    memory_ = std::make_unique<ArenaMemory>(arena_, std::max(bytes, usual_));
  }
  return memory_->data();
}

bool Carriage::moved() {
  if (!std::ranges::all_of(moving_, [](const Handle& handle) { return handle->over(); })) return false;
  for (const Handle& handle : moving_)
    if (handle->state() == Operation::State::failed) throw Failure(handle->error());
  moving_.clear();
  return true;
}

std::vector<std::unique_ptr<Carriage>> carriages(const Surroundings& around, std::vector<Carried> batch) {
  std::vector<std::vector<Carried>> parts;
  for (Carried& carried : batch) {
    const Request& request = *carried.request;
    const bool gather = request.what.collective == Collective::all_gather;
    const auto part = std::ranges::find_if(parts, [&](const auto& other) {
      const Request& first = *other.front().request;
      return fit(first, request) || (gather && first.what.collective == Collective::all_gather);
    });
    if (part != parts.end()) {
      part->push_back(std::move(carried));
    } else {
      parts.emplace_back().push_back(std::move(carried));
    }
  }
  std::vector<std::unique_ptr<Carriage>> made;
  for (auto& part : parts) made.push_back(carry(around, std::move(part)));
  return made;
}

}  // namespace paceline
