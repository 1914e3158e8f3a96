// A message that an operation waits for, and the matching of messages with those who wait for them.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "kernel/types.hpp"
#include "link/link.hpp"

namespace paceline {

class Receive final : public StreamSink {
 public:
  enum class State : std::uint8_t {
    idle,
    posted,
    here,       // in `arrival`: the payload itself, or an offer that this rank reads
    streaming,  // coming in pieces
    done,
  };

  // What to wait for: from group rank `source` (-1: anyone), to `to`; combined into it where `fold` is set; left in the
  // arrival for the operation to use where `in_place` is set.
  int source = -1;
  std::uint32_t sequence = 0;
  std::int32_t tag = 0;
  bool point_to_point = false;
  bool in_place = false;
  const Fold* fold = nullptr;
  std::byte* to = nullptr;
  std::size_t length = 0;

  State state = State::idle;
  int actual_source = -1;
  std::size_t filled = 0;
  Link* link = nullptr;
  std::unique_ptr<Arrival> arrival;

  bool wants(const Header& header, int from) const {
    const bool p2p = is_point_to_point(header.collective);
    return p2p == point_to_point && (source < 0 || source == from) && tag == header.tag &&
           (p2p || sequence == header.sequence);
  }

  std::byte* window(std::size_t size) override;
  void advance(std::size_t size) override;
  void consume(const std::byte* data, std::size_t size) override;
};

// First come, first served, on both sides.
class Matcher {
 public:
  struct Unexpected {
    int from;
    std::unique_ptr<Arrival> arrival;
  };

  Receive* first(const Header& header, int from) const;     // of those who wait for it; null if nobody does
  std::unique_ptr<Arrival> find_arrival(Receive& receive);  // sets actual_source; null if none has come
  void wait(Receive& receive) { waiting_.push_back(&receive); }
  void keep(int from, std::unique_ptr<Arrival> arrival) { unexpected_.push_back({from, std::move(arrival)}); }
  void forget(Receive& receive) { std::erase(waiting_, &receive); }
  const std::list<Unexpected>& unexpected() const { return unexpected_; }
  void clear() { unexpected_.clear(); }

 private:
  std::vector<Receive*> waiting_;
  std::list<Unexpected> unexpected_;
};

}  // namespace paceline
