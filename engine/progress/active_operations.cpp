#include "progress/active_operations.hpp"

namespace paceline {

void ActiveOperations::number(Group& group, Operation& operation, const Fingerprint& what) {
  operation.what = what;
  operation.id = next_id();
  operation.sequence = is_point_to_point(what.collective) ? group.sequence() : group.begin(what);
}

const Event& ActiveOperations::open_event(const Group& group, Operation& operation, std::size_t bytes) {
  Event& event = events_.slot(operation.id);
  event = {operation.id,
           group.channel,
           operation.sequence,
           operation.what,
           EventState::running,
           bytes,
           operation.algorithm,
           group.link_name,
           realtime_ns(),
           0,
           0};
  event.started_ns = event.enqueued_ns;
  // A coordinator counts its batches itself.
  if (group.large_calls != nullptr && group.use == Group::Use::callers && LargeCalls::counts(operation.what, bytes)) {
    const auto number = group.large_calls->begin(operation.what.collective, bytes, event.started_ns);
    operation.large = static_cast<std::int64_t>(number);
  }
  return event;
}

void ActiveOperations::close_event(const Operation& operation) {
  const std::int64_t now_ns = realtime_ns();
  if (operation.large >= 0) operation.group->large_calls->end(static_cast<std::uint64_t>(operation.large), now_ns);
  Event& event = events_.slot(operation.id);
  if (event.id != operation.id) return;
  event.ended_ns = now_ns;
  event.algorithm = operation.algorithm;
  event.state = operation.state() == Operation::State::done ? EventState::done : EventState::failed;
}

Rest ActiveOperations::rest() const {
  if (active_.empty()) return Rest::adaptive;
  Rest found = Rest::sleep;
  for (const auto& operation : active_) {
    if (operation->rest == Rest::spin || found == Rest::spin) return Rest::spin;
    if (operation->rest == Rest::yield || found == Rest::sleep) found = operation->rest;
  }
  return found;
}

void ActiveOperations::retire() {
  bool any = false;
  for (const auto& operation : active_) {
    if (!operation->over()) continue;
    any = true;
    close_event(*operation);
    if (operation->notify) notifications_.report(operation->id);
  }
  if (!any) return;
  std::erase_if(active_, [](const auto& operation) { return operation->over(); });
  sleepers_.wake_callers();
}

void ActiveOperations::fail_all(const Error& error, const Group* only) {
  for (const auto& operation : active_)
    if (only == nullptr || operation->group == only) operation->fail(error);
  retire();
}

}  // namespace paceline
