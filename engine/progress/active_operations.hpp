// The operations under way, oldest first; those that have ended; and the events that tell of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "execute/group.hpp"
#include "progress/sleepers.hpp"
#include "trace/events.hpp"

namespace paceline {

class ActiveOperations {
 public:
  explicit ActiveOperations(Sleepers& sleepers) : sleepers_(sleepers) {}

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

  // Removes the operations that are over, and wakes the threads that wait for them.
  void retire();
  // Fails all operations, or those of one group, and retires them.
  void fail_all(const Error& error, const Group* only = nullptr);

  // The server reports this id.
  void report(std::uint64_t id) {
    finished_.push_back(id);
    sleepers_.wake_server();
  }
  // The server calls this, without the lock.
  void call(std::function<void()> callback) {
    callbacks_.push_back(std::move(callback));
    sleepers_.wake_server();
  }
  // Whether the server has something to report, or to call.
  bool has_finished() const { return !finished_.empty() || !callbacks_.empty(); }
  std::vector<std::uint64_t> take_finished() { return std::exchange(finished_, {}); }
  std::vector<std::function<void()>> take_callbacks() { return std::exchange(callbacks_, {}); }

 private:
  Sleepers& sleepers_;
  std::vector<std::shared_ptr<Operation>> active_;
  std::vector<std::uint64_t> finished_;  // ids that the server has yet to report
  std::vector<std::function<void()>> callbacks_;
  EventRing events_;
  std::uint64_t last_id_ = 0;
};

}  // namespace paceline
