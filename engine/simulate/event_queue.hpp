// Events in virtual time: what happens next is the earliest of them, and of several at one moment the one that was
// added first. So a run depends on nothing but what was added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline::simulate {

template <typename What>
class EventQueue {
 public:
  struct Event {
    double at = 0;  // seconds
    std::uint64_t number = 0;
    What what{};
  };

  bool empty() const { return heap_.empty(); }
  // The events that were added so far.
  std::uint64_t count() const { return count_; }

  // The next event; there must be one.
  const Event& next() const { return heap_.front(); }

  void add(double at, What what) {
    heap_.push_back({at, count_++, what});
    std::ranges::push_heap(heap_, later);
  }
  Event take() {
    std::ranges::pop_heap(heap_, later);
    const Event first = heap_.back();
    heap_.pop_back();
    return first;
  }

 private:
  static bool later(const Event& one, const Event& other) {
    return one.at > other.at || (one.at == other.at && one.number > other.number);
  }

  std::vector<Event> heap_;
  std::uint64_t count_ = 0;
};

}  // namespace paceline::simulate
