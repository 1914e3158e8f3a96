// A message that an operation waits for, and the matching of messages with waiting operations.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "link/link.hpp"
#include "types/elements.hpp"

namespace paceline {

class Receive final : public StreamSink {
 public:
  enum class State : std::uint8_t {
    idle,
    posted,
    here,       // `arrival` holds the payload, or an offer that this rank reads
    streaming,  // it is coming in pieces
    done,
  };

  // It waits for a message from group rank `source`, or from any if that is -1. The payload goes to `to`, is combined
  // into it if `fold` is set, and is left in the arrival for the operation to use if `in_place` is set.
  int source = -1;
  std::uint32_t sequence = 0;
  std::int32_t tag = 0;
  bool point_to_point = false;
  DType dtype = DType::uint8;  // of a message between two ranks: nothing else has compared it
  bool in_place = false;
  bool up_to = false;  // `length` is the most that may come; it is what came once that is known
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

  // Whether a message that it wants is of other elements.
  bool differs(const Header& header) const {
    return point_to_point && header.dtype != dtype && !alike(header.dtype, 0, dtype, 0);
  }
  // Whether a message of so many bytes will do; then that is its length.
  bool takes(std::size_t bytes) {
    if (up_to ? bytes > length : bytes != length) return false;
    length = bytes;
    return true;
  }

  std::byte* window(std::size_t size) override;
  void advance(std::size_t size) override;
  void consume(const std::byte* data, std::size_t size) override;
};

// Messages and waiting operations meet in the order in which they come, on both sides.
class Matcher {
 public:
  struct Unexpected {
    int from;
    std::unique_ptr<Arrival> arrival;
  };

  // The first that waits for this message; null if there is none.
  Receive* first(const Header& header, int from) const;
  // The first message that it waits for, and sets its actual_source; null if none has come.
  std::unique_ptr<Arrival> find_arrival(Receive& receive);
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
