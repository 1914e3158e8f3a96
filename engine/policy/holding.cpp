#include "policy/holding.hpp"

#include <algorithm>

namespace paceline {

namespace {

// To carry this out takes many times as long as to wake up for it; more than the most gains nothing more.
constexpr std::uint64_t kLeastWorth = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostWorth = std::uint64_t{4} << 20;
constexpr std::uint64_t kPart = 8;  // of what has gone out

}  // namespace

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

std::uint64_t Holding::worth_it() const { return std::clamp(gone_out_ / kPart, kLeastWorth, kMostWorth); }

bool Holding::holds(std::uint64_t bytes) const {
  return seconds_ > 0 && awaited_.empty() && bytes < worth_it() && now_ < due_ && !memory_.wanted();
}

std::optional<double> Holding::sleep() {
  if (sleeps_ || !looks_) return {};
  sleeps_ = true;
  return due_ + seconds_;
}

}  // namespace paceline
