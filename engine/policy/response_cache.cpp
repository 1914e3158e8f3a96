#include "policy/response_cache.hpp"

namespace paceline {

ResponseCache::Found ResponseCache::find(const Request& request, Place& place) const {
  if (place < entries_.size() && entries_[place].description.get() == &request) return Found::hit;
  const auto found = by_name_.find(request.name);
  if (found == by_name_.end()) return Found::miss;
  place = found->second;
  const Entry& entry = entries_[place];
  return entry.description.get() == &request || entry.description->agrees_with(request) ? Found::hit : Found::invalid;
}

ResponseCache::Found ResponseCache::find_next(const Request& request, Place& place) {
  Place* const next = last_ < next_.size() ? &next_[last_] : nullptr;
  place = next != nullptr ? *next : kNowhere;
  const Found found = find(request, place);
  if (found == Found::miss) return found;
  if (next != nullptr) *next = place;
  last_ = place;
  return found;
}

// Takes these bits out of the order, into `moved_`.
void ResponseCache::move_out(const std::vector<std::uint32_t>& bits) {
  moved_.clear();
  std::size_t kept = 0;
  for (std::uint32_t bit = 0; bit < order_.size(); ++bit) {
    if (moved_.size() < bits.size() && bits[moved_.size()] == bit)
      moved_.push_back(order_[bit]);
    else
      order_[kept++] = order_[bit];
  }
  order_.resize(kept);
}

void ResponseCache::number() {
  for (std::uint32_t bit = 0; bit < order_.size(); ++bit) bits_[order_[bit]] = bit;
}

void ResponseCache::use(const std::vector<std::uint32_t>& bits) {
  if (bits.empty()) return;
  ++changes_;
  move_out(bits);
  order_.insert(order_.end(), moved_.begin(), moved_.end());
  number();
}

void ResponseCache::put(RequestPtr description, std::int32_t priority) {
  if (capacity_ == 0) return;
  if (const auto old = by_name_.find(description->name); old != by_name_.end()) erase({bits_[old->second]});
  if (order_.size() == capacity_) erase({0});
  std::uint32_t index = static_cast<std::uint32_t>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
    bits_.push_back(0);
    next_.push_back(kNowhere);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  entries_[index] = {std::move(description), priority};
  bits_[index] = static_cast<std::uint32_t>(order_.size());
  by_name_[entries_[index].description->name] = index;
  order_.push_back(index);
  ++changes_;
}

void ResponseCache::erase(const std::vector<std::uint32_t>& bits) {
  if (bits.empty()) return;
  ++changes_;
  move_out(bits);
  for (const std::uint32_t index : moved_) {
    by_name_.erase(entries_[index].description->name);
    entries_[index].description.reset();
    free_.push_back(index);
  }
  number();
}

}  // namespace paceline
