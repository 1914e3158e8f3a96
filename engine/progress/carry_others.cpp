// Requests that are no all-reduces. Where ranks may bring different amounts, they first tell each other how much.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernel/reduce.hpp"
#include "progress/carriage.hpp"

namespace paceline {
namespace {

using Counts = std::vector<std::uint64_t>;

std::byte* bytes_of(Counts& counts) { return reinterpret_cast<std::byte*>(counts.data()); }

class AllGather final : public Carriage {
 public:
  AllGather(const Surroundings& around, std::vector<Carried> together)
      : Carriage(around), together_(std::move(together)) {}

  bool step() override {
    switch (phase_) {
      case Phase::telling:
        tell();
        phase_ = Phase::hearing;
        [[fallthrough]];
      case Phase::hearing:
        if (!moved()) return false;
        for (std::size_t i = 0; i < together_.size(); ++i) gather(i);
        phase_ = Phase::moving;
        [[fallthrough]];
      case Phase::moving:
        if (!moved()) return false;
        for (const Carried& carried : together_)
          if (carried.own) around_.finished(*carried.own);
        phase_ = Phase::over;
        return true;
      case Phase::over: return false;
    }
    return false;
  }
  bool over() const override { return phase_ == Phase::over; }
  bool has_work() const override { return phase_ == Phase::telling; }

 private:
  enum class Phase : std::uint8_t { telling, hearing, moving, over };

  std::size_t ranks() const { return static_cast<std::size_t>(around_.group.size()); }

  void tell() {
    for (const Carried& carried : together_)
      mine_.push_back(carried.own ? carried.request->bytes / size_of(carried.request->what.dtype) : 0);
    all_.resize(mine_.size() * ranks());
    moving_.push_back(all_gather(around_.engine, around_.group, bytes_of(mine_), bytes_of(all_), mine_.size(),
                                 DType::int64, Mode::inside));
  }

  void gather(std::size_t index) {
    const Carried& carried = together_[index];
    const DType dtype = carried.request->what.dtype;
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ranks(); ++rank) counts.push_back(all_[rank * together_.size() + index]);
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    // A rank that has joined takes part, and forgets what it gets.
    auto output = around_.fusion.output(total * size_of(dtype));
    std::vector<Buffer> recvs;
    std::byte* next = output->data();
    for (const std::size_t count : counts) {
      recvs.push_back({next, count});
      next += count * size_of(dtype);
    }
    const Buffer given{carried.own ? carried.own->data : nullptr, static_cast<std::size_t>(mine_[index])};
    moving_.push_back(exchange(around_.engine, around_.group, Collective::all_gather,
                               std::vector<Buffer>(ranks(), given), recvs, dtype, -1, Mode::inside));
    outputs_.push_back(output);
    if (carried.own) {
      carried.own->output = std::move(output);
      carried.own->counts = std::move(counts);
    }
  }

  std::vector<Carried> together_;
  Phase phase_ = Phase::telling;
  Counts mine_;
  Counts all_;
  std::vector<std::shared_ptr<ArenaMemory>> outputs_;
};

// One request that all ranks have handed in: `begin` starts its collectives, more than once if need be.
class Single : public Carriage {
 public:
  Single(const Surroundings& around, Carried carried) : Carriage(around), carried_(std::move(carried)) {
    if (!carried_.own) throw Failure(ErrorKind::invalid, "a rank that has joined cannot take part in this collective");
  }

  bool step() override {
    if (over_ || !moved()) return false;
    if (!advance()) {
      over_ = true;
      around_.finished(own());
    }
    return true;
  }
  bool over() const final { return over_; }
  bool has_work() const final { return !over_ && moving_.empty(); }

 protected:
  // Starts what comes next; false if nothing is left to do.
  virtual bool advance() = 0;

  Requested& own() const { return *carried_.own; }
  const Request& request() const { return *carried_.request; }
  DType dtype() const { return request().what.dtype; }
  std::size_t width() const { return size_of(dtype()); }
  std::size_t ranks() const { return static_cast<std::size_t>(around_.group.size()); }
  std::size_t me() const { return static_cast<std::size_t>(around_.group.rank); }

  std::size_t turn_ = 0;

 private:
  Carried carried_;
  bool over_ = false;
};

class Broadcast final : public Single {
 public:
  using Single::Single;

 protected:
  bool advance() override {
    if (turn_++ > 0) return false;
    moving_.push_back(broadcast(around_.engine, around_.group, own().data, request().what.count, dtype(),
                                request().what.root, Mode::inside));
    return true;
  }
};

class AllToAll final : public Single {
 public:
  using Single::Single;

 protected:
  bool advance() override {
    switch (turn_++) {
      case 0:
        mine_.assign(own().counts.begin(), own().counts.end());
        all_.resize(ranks() * ranks());
        moving_.push_back(all_gather(around_.engine, around_.group, bytes_of(mine_), bytes_of(all_), ranks(),
                                     DType::int64, Mode::inside));
        return true;
      case 1: trade(); return true;
      default: return false;
    }
  }

 private:
  void trade() {
    std::vector<Buffer> sends;
    std::byte* next = own().data;
    for (const std::size_t count : own().counts) {
      sends.push_back({next, count});
      next += count * width();
    }
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ranks(); ++rank) counts.push_back(all_[rank * ranks() + me()]);
    own().output = around_.fusion.output(std::accumulate(counts.begin(), counts.end(), std::size_t{0}) * width());
    std::vector<Buffer> recvs;
    next = own().output->data();
    for (const std::size_t count : counts) {
      recvs.push_back({next, count});
      next += count * width();
    }
    own().counts = std::move(counts);
    moving_.push_back(exchange(around_.engine, around_.group, Collective::all_to_all, sends, recvs, dtype(), -1,
                               Mode::inside));
  }

  Counts mine_;
  Counts all_;
};

// Equal parts by the group's reduce_scatter; others by one reduction to each part's owner, all under way at once.
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
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      source = around_.fusion.at_least(total * width());
      scale(source, own().data, total, request().prescale);
    }
    if (std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); })) {
      moving_.push_back(reduce_scatter(around_.engine, around_.group, source, own().target, counts.front(), dtype(),
                                       request().what.op, 1, Mode::inside));
      return true;
    }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (rank == me()) std::memcpy(own().target, source, counts[rank] * width());
      if (counts[rank] > 0) {
        moving_.push_back(reduce(around_.engine, around_.group, rank == me() ? own().target : source, counts[rank],
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

std::unique_ptr<Carriage> carry_all_gather(const Surroundings& around, std::vector<Carried> together) {
  return std::make_unique<AllGather>(around, std::move(together));
}

std::unique_ptr<Carriage> carry_broadcast(const Surroundings& around, Carried carried) {
  return std::make_unique<Broadcast>(around, std::move(carried));
}

std::unique_ptr<Carriage> carry_all_to_all(const Surroundings& around, Carried carried) {
  return std::make_unique<AllToAll>(around, std::move(carried));
}

std::unique_ptr<Carriage> carry_reduce_scatter(const Surroundings& around, Carried carried) {
  return std::make_unique<ReduceScatter>(around, std::move(carried));
}

}  // namespace paceline
