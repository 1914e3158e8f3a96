#include "simulate/traffic.hpp"

#include <algorithm>

namespace paceline::simulate {

std::uint64_t bytes_of(const std::vector<RequestPtr>& requests) {
  std::uint64_t bytes = 0;
  for (const RequestPtr& request : requests) bytes += request->bytes;
  return bytes;
}

std::optional<double> Traffic::issue(int rank, Issue& action, double now) {
  const std::uint64_t place = issued_[static_cast<std::size_t>(rank)][action.channel]++;
  auto& channel = batches_[action.channel];
  if (place == channel.size()) channel.push_back({std::move(action.requests), 0, now});
  Batch& batch = channel[place];
  if (++batch.issued < issued_.size()) return std::nullopt;
  last_begun_ = std::max(now, free_);
  const std::uint64_t bytes = bytes_of(batch.requests);
  free_ = last_begun_ + seconds(bytes);
  carried_.push_back({batch.first, last_begun_, free_, bytes, batch.requests.size()});
  under_way_.emplace_back(action.channel, place);
  return free_;
}

std::vector<RequestPtr> Traffic::end() {
  const auto [channel, place] = under_way_.front();
  under_way_.pop_front();
  ++over_;
  return std::exchange(batches_[channel][place].requests, {});
}

double Traffic::carrying(double from, double to) const {
  double seconds = 0;
  for (const Carried& batch : carried_)
    seconds += std::max(0.0, std::min(to, batch.over) - std::max(from, batch.begun));
  return seconds;
}

double Traffic::seconds(std::uint64_t bytes) const {
  const auto& points = transfer_.all_reduce;
  const auto wanted = static_cast<double>(bytes);
  const auto above = std::ranges::find_if(points, [&](const auto& point) { return point.first >= wanted; });
  if (above == points.begin() || points.size() == 1) return points.front().second;
  const auto& [high, high_seconds] = above == points.end() ? points.back() : *above;
  const auto& [low, low_seconds] = above == points.end() ? points[points.size() - 2] : *(above - 1);
  return low_seconds + (wanted - low) / (high - low) * (high_seconds - low_seconds);
}

}  // namespace paceline::simulate
