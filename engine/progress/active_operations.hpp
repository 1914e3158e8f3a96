// The operations under way, oldest first; those that have ended; and the events that tell of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "execute/group.hpp"
#include "progress/notifications.hpp"
#include "progress/sleepers.hpp"
#include "trace/events.hpp"

namespace paceline {

class ActiveOperations {
 public:
  ActiveOperations(Sleepers& sleepers, Notifications& notifications)
      : sleepers_(sleepers), notifications_(notifications) {}

  std::uint64_t next_id() { return ++last_id_; }
  std::uint64_t last_id() const { return last_id_; }
  // Gives an operation that is about to start its id, and its number in its group.
  void number(Group& group, Operation& operation, const Fingerprint& what);
  // Opens the event of an operation of `bytes` bytes that starts now, and counts the operation if it is large.
  const Event& open_event(const Group& group, Operation& operation, std::size_t bytes);
  void close_event(const Operation& operation);
  EventRing& events() { return events_; }
  // The events of recent operations with ids above `after`.
  std::vector<Event> events(std::uint64_t after) const { return events_.snapshot(after, last_id_); }

  void add(std::shared_ptr<Operation> operation) { active_.push_back(std::move(operation)); }
  bool empty() const { return active_.empty(); }
  std::size_t size() const { return active_.size(); }
  // Operations may be added while a caller goes through them by index, but not removed: see `retire`.
  const std::shared_ptr<Operation>& operator[](std::size_t index) const { return active_[index]; }
  auto begin() const { return active_.begin(); }
  auto end() const { return active_.end(); }
  template <typename Predicate>
  bool any(Predicate&& predicate) const {
    return std::ranges::any_of(active_, [&](const auto& operation) { return predicate(*operation); });
  }
  // Whether all of them are, see Operation::patient.
  bool patient() const {
    return std::ranges::all_of(active_, [](const auto& operation) { return operation->patient(); });
  }
  // What the most restless operation wants. The loop sleeps at once only if all operations want that.
  Rest rest() const;

  // Removes the operations that are over, wakes the threads that wait for them, and reports those that are to be.
  void retire();
  // Fails all operations, or those of one group, and retires them.
  void fail_all(const Error& error, const Group* only = nullptr);

 private:
  Sleepers& sleepers_;
  Notifications& notifications_;
  std::vector<std::shared_ptr<Operation>> active_;
  EventRing events_;
  std::uint64_t last_id_ = 0;
};

}  // namespace paceline
