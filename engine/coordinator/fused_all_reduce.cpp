// The all-reduces of a batch. Small tensors are packed into the fusion memory, reduced there as one, and unpacked
// again. Large ones, which gain nothing by that, are reduced where they lie. All this goes on at once.
#include <algorithm>
#include <cstring>

#include "calibration/named.hpp"
#include "coordinator/batch_work.hpp"
#include "kernel/reduce.hpp"

namespace paceline {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

std::size_t bytes_of(const Carried& carried) {
  return carried.request->what.count * size_of(carried.request->what.dtype);
}

class FusedAllReduce final : public BatchWork {
 public:
  FusedAllReduce(const BatchContext& context, std::vector<Carried> fused)
      : BatchWork(context, std::move(fused)), first_(*carried_.front().request) {}

  bool step() override {
    const bool begun = phase_ != Phase::moving;
    switch (phase_) {
      case Phase::placing:
        place();
        if (first_.prescale == 1 && !apart_) start_alone();
        phase_ = Phase::packing;
        [[fallthrough]];
      case Phase::packing:
        if (!walk(&FusedAllReduce::pack)) return true;
        if (first_.prescale != 1 || apart_) start_alone();
        start_packed();
        phase_ = Phase::moving;
        [[fallthrough]];
      case Phase::moving:
        if (!moved()) return begun;
        note(&Record::reduced_ns);
        phase_ = Phase::unpacking;
        [[fallthrough]];
      case Phase::unpacking:
        if (walk(&FusedAllReduce::unpack)) phase_ = Phase::over;
        return true;
      case Phase::over: return false;
    }
    return false;
  }
  bool over() const override { return phase_ == Phase::over; }
  bool has_work() const override { return phase_ != Phase::moving && phase_ != Phase::over; }

 private:
  enum class Phase : std::uint8_t { placing, packing, moving, unpacking, over };

  // A tensor, and where it is reduced.
  struct Place {
    PendingRequest* own;  // null if this rank gives zeros
    std::byte* at;
    std::byte* residual;  // null if what encoding loses is lost
    std::size_t bytes;
    bool packed;
  };

  void place() {
    const auto is_packed = [&](const Carried& carried) {
      const std::size_t bytes = bytes_of(carried);
      const bool may_lie = !context_.revocable || (first_.prescale == 1 && begins_together(context_.group, bytes));
      return !may_lie || (carried_.size() > 1 && bytes < calibration::kReducedAlone);
    };
    const Arena& arena = context_.fusion.arena();
    // Tensors that lie in a row in the arena, as those of a gradient bucket do, are packed as they are.
    std::byte* row = nullptr;
    bool in_a_row = !context_.revocable;
    std::size_t unplaced = 0;
    bool feedback = false;  // of a packed tensor
    for (const Carried& carried : carried_) {
      const std::size_t bytes = bytes_of(carried);
      const bool packed = is_packed(carried);
      if (packed) {
        std::byte* const data = carried.own ? carried.own->call.target : nullptr;
        if (packed_bytes_ == 0) row = data;
        in_a_row = in_a_row && data != nullptr && data == row + packed_bytes_;
        packed_bytes_ += bytes;
        feedback = feedback || (carried.own && carried.own->call.residual != nullptr);
      }
      // Memory of an arena in which a collective was given up is never used again.
      const bool lies = !packed && carried.own && !(context_.revocable && arena.holds(carried.own->call.target, bytes));
      apart_ = apart_ || (!packed && !lies && carried.own);
      if (!packed && !lies) unplaced += bytes;
      // What is reduced apart begins together, on one machine, where nothing is encoded.
      std::byte* const residual = lies ? carried.own->call.residual : nullptr;
      places_.push_back({carried.own.get(), lies ? carried.own->call.target : nullptr, residual, bytes, packed});
    }
    if (!in_a_row || !arena.holds(row, packed_bytes_)) row = nullptr;
    const std::size_t residual_bytes = feedback ? packed_bytes_ : 0;
    const std::size_t needed = (row == nullptr ? packed_bytes_ : 0) + unplaced + residual_bytes;
    std::byte* free = needed > 0 ? context_.fusion.at_least(needed) : nullptr;
    buffer_ = row != nullptr ? row : free;
    std::byte* next = buffer_;
    for (Place& each : places_) {
      if (!each.packed) continue;
      each.at = next;
      next += each.bytes;
    }
    if (row == nullptr) free = next;
    if (feedback) {
      residual_ = free;
      for (Place& each : places_)
        if (each.packed) each.residual = residual_ + (each.at - buffer_);
      free += residual_bytes;
    }
    for (Place& each : places_) {
      if (each.packed || (each.own != nullptr && each.at == each.own->call.target)) continue;
      each.at = free;
      if (each.own == nullptr) std::memset(free, 0, each.bytes);
      free += each.bytes;
    }
  }

  void start(std::byte* data, std::byte* residual, std::size_t bytes) {
    CollectiveCall call = call_of(carried_.front());
    call.target = data;
    call.count = bytes / size_of(call.dtype);
    call.residual = residual;
    moving_.push_back(paceline::start(context_.engine, context_.group, call, Mode::inside));
  }

  void start_alone() {
    for (const Place& each : places_)
      if (!each.packed) start(each.at, each.residual, each.bytes);
  }

  void start_packed() {
    if (packed_bytes_ > 0 || first_.prescale != 1) note(&Record::packed_ns);
    if (std::ranges::any_of(places_, &Place::packed)) start(buffer_, residual_, packed_bytes_);
    at_ = done_ = 0;
  }

  void note(std::int64_t Record::* time) const {
    const auto now = now_ns();
    for (const Place& each : places_)
      if (each.own != nullptr) each.own->record.*time = now;
  }

  void pack(const Place& each, std::size_t from, std::size_t bytes) const {
    if (each.own == nullptr) {
      if (each.packed) std::memset(each.at + from, 0, bytes);
    } else {
      copy(each.at + from, each.own->call.target + from, bytes, first_.prescale);
    }
    if (!each.packed || each.residual == nullptr) return;
    if (each.own == nullptr || each.own->call.residual == nullptr) {
      std::memset(each.residual + from, 0, bytes);
    } else {
      std::memcpy(each.residual + from, each.own->call.residual + from, bytes);
    }
  }

  void unpack(const Place& each, std::size_t from, std::size_t bytes) const {
    if (each.own == nullptr) return;
    copy(each.own->call.target + from, each.at + from, bytes, first_.postscale);
    if (each.packed && each.residual != nullptr && each.own->call.residual != nullptr)
      std::memcpy(each.own->call.residual + from, each.residual + from, bytes);
    if (from + bytes == each.bytes) context_.finished(*each.own);
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes, double factor) const {
    if (factor != 1) {
      kernels().scale(first_.what.dtype, to, from, bytes / size_of(first_.what.dtype), factor);
    } else if (to != from && bytes > 0) {  // what is empty may have no address
      std::memcpy(to, from, bytes);
    }
  }

  // Does the next piece of all tensors, in order. Returns true after the last one.
  bool walk(void (FusedAllReduce::*visit)(const Place&, std::size_t, std::size_t) const) {
    const double factor = phase_ == Phase::packing ? first_.prescale : first_.postscale;
    for (std::size_t room = calibration::kPackedPerStep; at_ < places_.size(); ++at_, done_ = 0) {
      const Place& each = places_[at_];
      const bool stays = each.own == nullptr ? !each.packed
                                             : each.at == each.own->call.target && factor == 1 &&
                                                   (!each.packed || each.residual == nullptr);
      const std::size_t bytes = stays ? each.bytes : std::min(room, each.bytes - done_);
      (this->*visit)(each, done_, bytes);
      if (stays) continue;
      done_ += bytes;
      room -= bytes;
      if (done_ < each.bytes) return false;
    }
    return true;
  }

  const Request& first_;  // the others have the same dtype, op, codec and factors
  Phase phase_ = Phase::placing;
  std::vector<Place> places_;
  std::byte* buffer_ = nullptr;
  std::byte* residual_ = nullptr;  // of the packed tensors; null: none has one
  std::size_t packed_bytes_ = 0;
  bool apart_ = false;    // a tensor is copied, to be reduced alone
  std::size_t at_ = 0;    // the tensor that is being packed or unpacked
  std::size_t done_ = 0;  // the bytes of it that are done
};

}  // namespace

// On a device each tensor with a codec of its own is encoded for itself.
bool is_packed(const Request& request) {
  return agreed_bytes(request) < calibration::kReducedAlone &&
         !(request.on_device && request.what.codec != Codec::none);
}

std::unique_ptr<BatchWork> carry_all_reduce(const BatchContext& context, std::vector<Carried> fused) {
  return std::make_unique<FusedAllReduce>(context, std::move(fused));
}

}  // namespace paceline
