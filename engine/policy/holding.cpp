#include "policy/holding.hpp"

#include <algorithm>

#include "calibration/named.hpp"

namespace paceline {

void Holding::begin(bool looks) {
  due_ = now_ + seconds_;
  looks_ = looks;
}

void Holding::awaited(const Request& request) {
  if (seconds_ == 0) return;
  gone_out_ = 0;
  awaited_.push_back(&request);
  if (awaited_.size() == 1) memory_.want(true);
}

void Holding::stop_waiting(const Request& request) {
  if (std::erase(awaited_, &request) > 0 && awaited_.empty()) memory_.want(false);
}

void Holding::forget() {
  if (!awaited_.empty()) memory_.want(false);
  awaited_.clear();
  looks_ = sleeps_ = false;
}

std::uint64_t Holding::worth_it() const {
  using namespace calibration;
  return std::clamp(gone_out_ / kHeldPart, kLeastHeld, kMostHeld);
}

bool Holding::holds(std::uint64_t bytes) const {
  return seconds_ > 0 && awaited_.empty() && bytes < worth_it() && now_ < due_ && !memory_.wanted();
}

std::optional<double> Holding::sleep() {
  if (sleeps_ || !looks_) return {};
  sleeps_ = true;
  return due_ + seconds_;
}

}  // namespace paceline
