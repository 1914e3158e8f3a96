// All-reduces of a batch as one: tensors that lie apart are packed into the fusion memory and unpacked from it.
#include <algorithm>
#include <cstring>

#include "kernel/reduce.hpp"
#include "progress/carriage.hpp"

namespace paceline {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;  // packed in one step

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

void copy(DType dtype, std::byte* to, const std::byte* from, std::size_t bytes, double factor) {
  if (factor != 1) {
    kernels().scale(dtype, to, from, bytes / size_of(dtype), factor);
  } else if (to != from) {
    std::memcpy(to, from, bytes);
  }
}

class FusedAllReduce final : public Carriage {
 public:
  FusedAllReduce(const Surroundings& around, std::vector<Carried> fused)
      : Carriage(around, std::move(fused)), first_(*carried_.front().request) {
    for (const Carried& carried : carried_) bytes_ += bytes_of(carried);
  }

  bool step() override {
    const bool begun = phase_ != Phase::moving;
    switch (phase_) {
      case Phase::placing:
        place();
        phase_ = Phase::packing;
        [[fallthrough]];
      case Phase::packing:
        if (!pack()) return true;
        start();
        phase_ = Phase::moving;
        [[fallthrough]];
      case Phase::moving:
        if (!moved()) return begun;
        for (const Carried& carried : carried_)
          if (carried.own) carried.own->record.reduced_ns = now_ns();
        phase_ = Phase::unpacking;
        [[fallthrough]];
      case Phase::unpacking:
        if (unpack()) phase_ = Phase::over;
        return true;
      case Phase::over: return false;
    }
    return false;
  }
  bool over() const override { return phase_ == Phase::over; }
  bool has_work() const override { return phase_ != Phase::moving && phase_ != Phase::over; }

 private:
  enum class Phase : std::uint8_t { placing, packing, moving, unpacking, over };

  std::size_t bytes_of(const Carried& carried) const {
    return carried.request->what.count * size_of(carried.request->what.dtype);
  }

  // Tensors that lie in a row already, as those of a gradient bucket do, stay where they are.
  void place() {
    std::byte* const begin = carried_.front().own ? carried_.front().own->data : nullptr;
    std::byte* next = begin;
    bool in_a_row = begin != nullptr;
    for (const Carried& carried : carried_) {
      in_a_row = in_a_row && carried.own && carried.own->data == next;
      next += bytes_of(carried);
    }
    const bool usable = carried_.size() == 1 || around_.fusion.arena().holds(begin, bytes_);
    in_place_ = in_a_row && usable && !around_.spare_inputs;
    buffer_ = in_place_ ? begin : around_.fusion.at_least(bytes_);
  }

  // True once all is packed.
  bool pack() {
    if (in_place_ && first_.prescale == 1) return true;
    return walk([&](const Carried& carried, std::size_t from, std::size_t in_buffer, std::size_t bytes) {
      std::byte* const to = buffer_ + in_buffer;
      if (carried.own) {
        copy(first_.what.dtype, to, carried.own->data + from, bytes, first_.prescale);
      } else {
        std::memset(to, 0, bytes);
      }
    });
  }

  void start() {
    if (first_.prescale != 1 || !in_place_) {
      for (const Carried& carried : carried_)
        if (carried.own) carried.own->record.packed_ns = now_ns();
    }
    moving_.push_back(all_reduce(around_.engine, around_.group, buffer_, bytes_ / size_of(first_.what.dtype),
                                 first_.what.dtype, first_.what.op, 1, Mode::inside));
    at_ = done_ = offset_ = 0;
  }

  bool unpack() {
    if (in_place_ && first_.postscale == 1) {
      for (const Carried& carried : carried_) around_.finished(*carried.own);
      return true;
    }
    return walk([&](const Carried& carried, std::size_t from, std::size_t in_buffer, std::size_t bytes) {
      if (!carried.own) return;
      copy(first_.what.dtype, carried.own->data + from, buffer_ + in_buffer, bytes, first_.postscale);
      if (from + bytes == bytes_of(carried)) around_.finished(*carried.own);
    });
  }

  // The next piece of all tensors, in order; true after the last.
  template <typename Visit>
  bool walk(Visit&& visit) {
    for (std::size_t room = kPiece; at_ < carried_.size() && room > 0;) {
      const std::size_t whole = bytes_of(carried_[at_]);
      const std::size_t bytes = std::min(room, whole - done_);
      visit(carried_[at_], done_, offset_, bytes);
      offset_ += bytes;
      done_ += bytes;
      room -= bytes;
      if (done_ < whole) break;
      ++at_;
      done_ = 0;
    }
    return at_ == carried_.size();
  }

  const Request& first_;  // the others have the same dtype, op and factors
  std::size_t bytes_ = 0;
  Phase phase_ = Phase::placing;
  bool in_place_ = false;
  std::byte* buffer_ = nullptr;
  std::size_t at_ = 0;      // the tensor that is packed, or unpacked,
  std::size_t done_ = 0;    // so much of it,
  std::size_t offset_ = 0;  // and of all
};

}  // namespace

std::unique_ptr<Carriage> carry_all_reduce(const Surroundings& around, std::vector<Carried> fused) {
  return std::make_unique<FusedAllReduce>(around, std::move(fused));
}

}  // namespace paceline
