#include "coordinator/requests.hpp"

#include <algorithm>
#include <utility>

#include "progress/times.hpp"

namespace paceline {
namespace {

// Tells everybody who waits for it that a request is over.
void end(LoopHost& loop, PendingRequest& pending, const Error& error) {
  if (error) {
    pending.fail({error.kind, pending.description() + " failed: " + error.message, error.culprit});
  } else {
    pending.finish();
  }
  loop.wake_callers();
  if (pending.notify) loop.report(pending.id);
  if (pending.allocate) loop.call([no_more = std::exchange(pending.allocate, nullptr)] {});
  if (pending.callback)
    loop.call([own = pending.shared_from_this(), callback = std::exchange(pending.callback, {})] { callback(*own); });
}

}  // namespace

bool Requests::submit(const std::shared_ptr<PendingRequest>& pending, const RequestArguments& arguments,
                      Clock::time_point now) {
  auto found = names_.find(arguments.name);
  if (found == names_.end()) found = names_.emplace(arguments.name, Name{}).first;
  Name& name = found->second;
  name.request = pending->request = arguments.request(name.request);
  pending->what = pending->request->what;
  const bool first = name.current == nullptr;
  if (first) {
    submit_now(name, pending, now);
  } else {
    name.waiting.push_back(pending);
  }
  add(*pending, now);
  return first;
}

void Requests::join(PendingRequest& pending, Clock::time_point now) {
  pending.join = true;
  agreement_.policy().join(seconds_of(now));
  add(pending, now);
}

void Requests::submit_now(Name& name, std::shared_ptr<PendingRequest> pending, Clock::time_point now) {
  Policy& policy = agreement_.policy();
  policy.submit(pending->request, seconds_of(now));
  if (pending->blocks) {
    policy.awaited(*pending->request, seconds_of(now));
  } else if (pending->callback || pending->wanted) {
    policy.wanted(*pending->request, seconds_of(now));
  }
  if (policy.sees_all()) pending->record.last = name.issued_before && policy.missing(*pending->request).empty();
  name.current = std::move(pending);
}

void Requests::add(PendingRequest& pending, Clock::time_point now) {
  pending.id = loop_.next_id();
  pending.start(*control_, {});
  pending.started = pending.probed = now;
  pending.deadline = now + on_clock(control_->timeout);
  pending.record.request = pending.request;
  pending.record.submitted_ns = ns_of(now);
  pending.place = under_way_.size();
  under_way_.push_back(&pending);
}

std::shared_ptr<PendingRequest> Requests::issue(std::string_view name, std::uint64_t batch, Clock::time_point now) {
  const auto found = names_.find(name);
  if (found == names_.end() || !found->second.current) return nullptr;
  found->second.issued_before = true;
  const auto own = found->second.current;
  own->issued = true;
  own->record.batch = batch;
  own->record.negotiated_ns = ns_of(now);
  return own;
}

void Requests::settle(PendingRequest& pending, const Error& error) {
  const auto now = Clock::now();
  pending.record.done_ns = ns_of(now);
  remove(pending);
  if (error && pending.on_its_device) {  // its memory goes back to its caller with the news
    device_calls_.when_released(pending,
                                [&loop = loop_, own = pending.shared_from_this(), error] { end(loop, *own, error); });
  } else {
    end(loop_, pending, error);
  }
  if (pending.join) return;
  record(std::move(pending.record));
  submit_next(pending, now);
}

void Requests::submit_next(const PendingRequest& ended, Clock::time_point now) {
  const auto found = names_.find(ended.request->name);
  Name& name = found->second;
  if (name.current.get() != &ended) return;
  const auto keep = std::move(name.current);
  if (failing_) return;
  if (!name.waiting.empty()) {
    auto next = std::move(name.waiting.front());
    name.waiting.pop_front();
    try {
      submit_now(name, next, now);
    } catch (const Failure& failure) {
      name.current = next;
      settle(*next, {failure.kind, failure.what(), failure.culprit});
    }
  } else if (names_.size() > kNamesKept) {
    names_.erase(found);
  }
}

void Requests::fail_all(const Error& error) {
  failing_ = true;
  while (!under_way_.empty()) settle(*under_way_.back(), error);
  for (auto& [text, name] : names_) name.waiting.clear();
}

void Requests::remove(const PendingRequest& pending) {
  under_way_[pending.place] = under_way_.back();
  under_way_[pending.place]->place = pending.place;
  under_way_.pop_back();
}

void Requests::record(Record&& record) {
  if (records_.size() < kRecords) records_.resize(records_.size() + 1);
  Record& kept = records_[next_record_ % kRecords];
  kept = std::move(record);
  kept.number = ++next_record_;
}

bool Requests::has(std::string_view name) const {
  const auto found = names_.find(name);
  return found != names_.end() && found->second.current;
}

std::vector<PendingRequest*> Requests::oldest_first() const {
  auto ordered = under_way_;
  std::ranges::sort(ordered, {}, [](const PendingRequest* pending) { return pending->id; });
  return ordered;
}

std::vector<Record> Requests::records(std::uint64_t after) const {
  std::vector<Record> ordered;
  for (std::uint64_t n = std::max<std::uint64_t>(after, next_record_ - records_.size()); n < next_record_; ++n)
    ordered.push_back(records_[n % kRecords]);
  return ordered;
}

}  // namespace paceline
