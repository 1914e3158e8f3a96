// The requests of a batch whose memory is a device's. Each goes alone, where it lies, and all are under way at once.
#include <algorithm>

#include "coordinator/batch_work.hpp"
#include "coordinator/device_calls.hpp"

namespace paceline {
namespace {

class OnDevice final : public BatchWork {
 public:
  using BatchWork::BatchWork;

  bool step() override {
    if (over_) return false;
    if (calls_.empty()) {
      for (const Carried& carried : carried_)
        calls_.push_back(context_.device_calls.hand_over(carried.request, carried.own));
      return true;
    }
    for (const auto& call : calls_)
      if (call->error) throw Failure(call->error);
    if (!all_started()) return false;
    if (moving_.empty())
      for (const auto& call : calls_) moving_.insert(moving_.end(), call->operations.begin(), call->operations.end());
    if (!moved()) return false;
    for (const Carried& carried : carried_)
      if (carried.own) context_.finished(*carried.own);
    return over_ = true;
  }
  bool over() const override { return over_; }
  bool has_work() const override { return !over_ && moving_.empty() && (calls_.empty() || all_started()); }

 private:
  bool all_started() const {
    return std::ranges::all_of(calls_, [](const auto& call) { return call->started; });
  }

  std::vector<std::shared_ptr<DeviceCall>> calls_;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<BatchWork> carry_on_device(const BatchContext& context, std::vector<Carried> batch) {
  return std::make_unique<OnDevice>(context, std::move(batch));
}

}  // namespace paceline
