// Horovod's response cache (v0.16.3): requests that need no description, because all ranks know them by a bit.
//
// Bit 0 stands for the request that was used least recently. All ranks change their caches in the same order, so that a
// bit means the same on all of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

class ResponseCache {
 public:
  explicit ResponseCache(std::uint32_t capacity) : capacity_(capacity) {}

  enum class Found : std::uint8_t { miss, hit, invalid };
  // Where an entry lies: the same as long as the entry is in the cache, while its bit changes.
  using Place = std::uint32_t;

  static constexpr Place kNowhere = ~Place{0};

  struct Entry {
    RequestPtr description;
    std::int32_t priority = 0;
  };

  std::uint32_t capacity() const { return capacity_; }
  // How often entries have come, gone or got other bits.
  std::uint64_t changes() const { return changes_; }
  std::uint32_t bits() const { return static_cast<std::uint32_t>(order_.size()); }
  // Returns whether the request is there as it was, and sets `place` unless it is a miss. A request that still is where
  // `place` says is found at once.
  Found find(const Request& request, Place& place) const;
  // The same for a request whose place is unknown. Requests often come in the same order again, so it is first looked
  // for where the one was that came after the last one.
  Found find_next(const Request& request, Place& place);
  std::uint32_t bit(Place place) const { return bits_[place]; }
  const Entry& at(std::uint32_t bit) const { return entries_[order_[bit]]; }

  // These bits, in ascending order, were used: they become the highest ones.
  void use(const std::vector<std::uint32_t>& bits);
  // Gives the highest bit to this request. If there is no room, the request with the lowest bit is dropped.
  void put(RequestPtr description, std::int32_t priority);
  // The bits are in ascending order.
  void erase(const std::vector<std::uint32_t>& bits);

 private:
  void move_out(const std::vector<std::uint32_t>& bits);
  void number();

  const std::uint32_t capacity_;
  std::uint64_t changes_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> bits_;   // by place
  std::vector<Place> next_;           // by place: that of the request that came after this one the last time
  std::vector<std::uint32_t> order_;  // by bit: the index of its entry
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> moved_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  Place last_ = kNowhere;  // of the last request that find_next found
};

}  // namespace paceline
