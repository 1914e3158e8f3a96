// The messages of a job that are under way, each at a place that is used again once the message has arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace paceline::simulate {

class Post {
 public:
  struct Message {
    int from = 0;
    std::vector<std::byte> bytes;
  };

  // Returns the place of the message.
  std::uint32_t send(int from, std::vector<std::byte> bytes) {
    ++sent_;
    if (free_.empty()) {
      messages_.push_back({from, std::move(bytes)});
      return static_cast<std::uint32_t>(messages_.size() - 1);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    messages_[place] = {from, std::move(bytes)};
    return place;
  }
  // The message arrives.
  Message take(std::uint32_t place) {
    free_.push_back(place);
    return std::move(messages_[place]);
  }
  // The messages that were sent so far.
  std::uint64_t sent() const { return sent_; }

 private:
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sent_ = 0;
};

}  // namespace paceline::simulate
