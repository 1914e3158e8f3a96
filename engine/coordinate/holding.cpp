#include "coordinate/holding.hpp"

namespace paceline {

namespace {

// To carry it out takes many times as long as to wake up for it.
constexpr std::uint64_t kWorthIt = std::uint64_t{1} << 20;

}  // namespace

void Holding::begin(bool looks) {
  due_ = now_ + seconds_;
  looks_ = looks;
}

void Holding::awaited(const Request& request) {
  if (seconds_ == 0) return;
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

bool Holding::holds(std::uint64_t bytes) const {
  return seconds_ > 0 && awaited_.empty() && bytes < kWorthIt && now_ < due_ && !memory_.wanted();
}

std::optional<double> Holding::sleep() {
  if (sleeps_ || !looks_) return {};
  sleeps_ = true;
  return due_ + seconds_;
}

}  // namespace paceline
