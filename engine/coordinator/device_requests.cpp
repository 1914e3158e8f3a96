// The requests of a batch whose memory is a device's. Small tensors of several go as one; each of the others goes
// alone, where it lies. All are under way at once.
#include <algorithm>

#include "coordinator/amounts.hpp"
#include "coordinator/batch_work.hpp"
#include "coordinator/device_calls.hpp"

namespace paceline {
namespace {

class OnDevice final : public BatchWork {
 public:
  OnDevice(const BatchContext& context, std::vector<Carried> batch)
      : BatchWork(context, std::move(batch)),
        phase_(Amounts::differ(*carried_.front().request) ? Phase::telling : Phase::handing_over) {}

  bool step() override {
    switch (phase_) {
      case Phase::telling:
        moving_.push_back(amounts_.exchange(context_, carried_.front()));
        phase_ = Phase::learning;
        return true;
      case Phase::learning:
        if (!moved()) return false;
        counts_ = amounts_.received();
        phase_ = Phase::handing_over;
        [[fallthrough]];
      case Phase::handing_over:
        hand_over();
        phase_ = Phase::starting;
        return true;
      case Phase::starting:
        for (const auto& call : calls_)
          if (call->error) throw Failure(call->error);
        if (!all_started()) return false;
        for (const auto& call : calls_) moving_.insert(moving_.end(), call->operations.begin(), call->operations.end());
        phase_ = Phase::moving;
        [[fallthrough]];
      case Phase::moving:
        if (!moved()) return false;
        finish();
        phase_ = Phase::over;
        return true;
      case Phase::over: return false;
    }
    return false;
  }
  bool over() const override { return phase_ == Phase::over; }
  bool has_work() const override {
    return phase_ == Phase::telling || phase_ == Phase::handing_over || (phase_ == Phase::starting && all_started());
  }

 private:
  // Where ranks may bring different amounts to a request, which is then alone, they tell each other before.
  enum class Phase : std::uint8_t { telling, learning, handing_over, starting, moving, over };

  void hand_over() {
    std::vector<Carried> together;
    for (const Carried& carried : carried_) {
      if (carried_.size() > 1 && is_packed(*carried.request)) {
        together.push_back(carried);
      } else {
        calls_.push_back(context_.device_calls.hand_over({carried}, counts_));
      }
    }
    if (!together.empty()) calls_.push_back(context_.device_calls.hand_over(std::move(together)));
  }

  bool all_started() const {
    return std::ranges::all_of(calls_, [](const auto& call) { return call->started; });
  }

  void finish() {
    for (const Carried& carried : carried_) {
      if (carried.own == nullptr) continue;
      if (!counts_.empty()) carried.own->counts = counts_;
      context_.finished(*carried.own);
    }
  }

  Phase phase_;
  Amounts amounts_;
  std::vector<std::size_t> counts_;  // by rank: the elements that come here, where ranks may differ
  std::vector<std::shared_ptr<DeviceCall>> calls_;
};

}  // namespace

std::unique_ptr<BatchWork> carry_on_device(const BatchContext& context, std::vector<Carried> batch) {
  return std::make_unique<OnDevice>(context, std::move(batch));
}

}  // namespace paceline
