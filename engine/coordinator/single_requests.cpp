// Requests that are no all-reduces. If ranks may bring different amounts, they first tell each other how much.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "coordinator/amounts.hpp"
#include "coordinator/batch_work.hpp"
#include "kernel/reduce.hpp"

namespace paceline {
namespace {

// One request, carried out by one collective after the other, or by several at once.
class Single : public BatchWork {
 public:
  Single(const BatchContext& context, std::vector<Carried> one) : BatchWork(context, std::move(one)) {
    if (!has_own() && request().what.collective != Collective::all_gather)
      throw Failure(ErrorKind::invalid, "a rank that has joined cannot take part in this collective");
  }

  bool step() override {
    if (over_ || !moved()) return false;
    if (!advance()) {
      over_ = true;
      if (has_own()) context_.finished(own());
    }
    return true;
  }
  bool over() const final { return over_; }
  bool has_work() const final { return !over_ && moving_.empty(); }

 protected:
  // Starts what comes next. Returns false if nothing is left to do.
  virtual bool advance() = 0;

  bool has_own() const { return carried_.front().own != nullptr; }  // false if this rank has joined
  PendingRequest& own() const { return *carried_.front().own; }
  const Request& request() const { return *carried_.front().request; }
  DType dtype() const { return request().what.dtype; }
  std::size_t width() const { return size_of(dtype()); }
  std::size_t ranks() const { return static_cast<std::size_t>(context_.group.size()); }
  std::size_t me() const { return static_cast<std::size_t>(context_.group.rank); }

  void start(const CollectiveCall& call) {
    moving_.push_back(paceline::start(context_.engine, context_.group, call, Mode::inside));
  }

  std::size_t turn_ = 0;

 private:
  bool over_ = false;
};

class Broadcast final : public Single {
 public:
  using Single::Single;

 protected:
  bool advance() override {
    if (turn_++ > 0) return false;
    start(call_of(carried_.front()));
    return true;
  }
};

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// An all_gather or an all_to_all, to which ranks may bring different amounts.
class Exchange final : public Single {
 public:
  using Single::Single;

 protected:
  bool advance() override {
    switch (turn_++) {
      case 0: tell(); return true;
      case 1: trade(); return true;
      default: return false;
    }
  }

 private:
  void tell() { moving_.push_back(amounts_.exchange(context_, carried_.front())); }

  void trade() {
    auto counts = amounts_.received();
    CollectiveCall call = call_of(carried_.front());
    auto* const data = const_cast<std::byte*>(call.source);
    call.sends = call.collective == Collective::all_to_all ? in_a_row(data, own().counts, dtype())
                                                           : std::vector<Elements>(ranks(), {data, counts[me()]});
    // A rank that has joined takes part, and forgets what it gets.
    output_ = context_.fusion.output(sum(counts) * width());
    call.receives = in_a_row(output_->data(), counts, dtype());
    call.count = 0;
    start(call);
    if (!has_own()) return;
    own().output = output_;
    own().counts = std::move(counts);
  }

  Amounts amounts_;
  std::shared_ptr<ArenaMemory> output_;
};

// It does equal parts by the group's reduce_scatter, and others by one reduction to the owner of each part, all of
// which are under way at once.
class ReduceScatter final : public Single {
 public:
  using Single::Single;

 protected:
  bool advance() override {
    if (turn_++ > 0) {
      const CollectiveCall& call = own().call;
      if (request().postscale != 1) scale(call.target, call.target, own().counts[me()], request().postscale);
      return false;
    }
    CollectiveCall call = call_of(carried_.front());
    const auto& counts = own().counts;
    if (request().prescale != 1) {
      std::byte* const scaled = context_.fusion.at_least(sum(counts) * width());
      scale(scaled, call.source, sum(counts), request().prescale);
      call.source = scaled;
    }
    if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
      call.count = counts.front();
      start(call);
    } else {
      reduce_parts(call);
    }
    return true;
  }

 private:
  void reduce_parts(const CollectiveCall& call) {
    auto* part = const_cast<std::byte*>(call.source);  // other ranks' parts are only read
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::size_t count = own().counts[rank];
      if (count > 0) {
        if (rank == me()) std::memcpy(call.target, part, count * width());
        start({.collective = Collective::reduce,
               .target = rank == me() ? call.target : part,
               .count = count,
               .dtype = dtype(),
               .op = call.op,
               .root = static_cast<int>(rank)});
      }
      part += count * width();
    }
  }

  void scale(std::byte* to, const std::byte* from, std::size_t count, double factor) const {
    kernels().scale(dtype(), to, from, count, factor);
  }
};

}  // namespace

std::unique_ptr<BatchWork> carry_broadcast(const BatchContext& context, std::vector<Carried> one) {
  return std::make_unique<Broadcast>(context, std::move(one));
}

std::unique_ptr<BatchWork> carry_exchange(const BatchContext& context, std::vector<Carried> one) {
  return std::make_unique<Exchange>(context, std::move(one));
}

std::unique_ptr<BatchWork> carry_reduce_scatter(const BatchContext& context, std::vector<Carried> one) {
  return std::make_unique<ReduceScatter>(context, std::move(one));
}

}  // namespace paceline
