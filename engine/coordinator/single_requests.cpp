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
    moving_.push_back(broadcast(context_.engine, context_.group, own().data, request().what.count, dtype(),
                                request().what.root, Mode::inside, wanted_by(request())));
    return true;
  }
};

// Returns buffers of `counts` elements, one behind the other.
std::vector<Buffer> in_a_row(std::byte* next, const std::vector<std::size_t>& counts, std::size_t width) {
  std::vector<Buffer> buffers;
  for (const std::size_t count : counts) {
    buffers.push_back({next, count});
    next += count * width;
  }
  return buffers;
}

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
    std::byte* const data = has_own() ? own().data : nullptr;
    const auto sends = request().what.collective == Collective::all_to_all
                           ? in_a_row(data, own().counts, width())
                           : std::vector<Buffer>(ranks(), {data, counts[me()]});
    // A rank that has joined takes part, and forgets what it gets.
    output_ = context_.fusion.output(sum(counts) * width());
    moving_.push_back(exchange(context_.engine, context_.group, request().what.collective, sends,
                               in_a_row(output_->data(), counts, width()), dtype(), -1, Mode::inside));
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
      if (request().postscale != 1) scale(own().target, own().target, own().counts[me()], request().postscale);
      return false;
    }
    const auto& counts = own().counts;
    std::byte* source = own().data;
    if (request().prescale != 1) {
      source = context_.fusion.at_least(sum(counts) * width());
      scale(source, own().data, sum(counts), request().prescale);
    }
    if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
      moving_.push_back(reduce_scatter(context_.engine, context_.group, source, own().target, counts.front(), dtype(),
                                       request().what.op, 1, Mode::inside, wanted_by(request())));
      return true;
    }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (counts[rank] > 0) {
        if (rank == me()) std::memcpy(own().target, source, counts[rank] * width());
        moving_.push_back(reduce(context_.engine, context_.group, rank == me() ? own().target : source, counts[rank],
                                 dtype(), request().what.op, 1, static_cast<int>(rank), Mode::inside));
      }
      source += counts[rank] * width();
    }
    return true;
  }

 private:
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
