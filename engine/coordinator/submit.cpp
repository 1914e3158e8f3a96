// What callers hand in to a coordinator, until it is over.
#include <algorithm>

#include "coordinator/coordinator.hpp"
#include "progress/times.hpp"

namespace paceline {

void Coordinator::check_open(std::string_view request, std::string_view name) const {
  const auto refuse = [&](const Error& why) {
    std::string asked(request);
    if (!name.empty()) asked.append(" \"").append(name).append("\"");
    throw Failure({why.kind, asked + " cannot start: " + why.message, why.culprit}, asked, std::string(name));
  };
  if (!policy_) throw Failure(ErrorKind::invalid, "this coordinator is not open yet");
  if (closed_ || loop_.closed()) refuse({ErrorKind::aborted, "its coordinator is closed"});
  for (const auto& stream : streams_)
    if (stream->group->error) refuse(stream->group->error);
  if (control_->error) refuse(control_->error);
  if (state() == State::failed) refuse(error());
}

void Coordinator::check(const Wish& wish) const {
  const auto bad = [&](const std::string& sentence) {
    throw Failure(ErrorKind::invalid, '"' + std::string(wish.name) + "\": " + sentence);
  };
  if (wish.name.empty()) bad("a request needs a name");
  if (wish.data == nullptr && wish.count > 0) bad("the buffer is null but holds elements");
  const Fingerprint& asked = wish.what;
  const bool reduces = asked.collective == Collective::all_reduce || asked.collective == Collective::reduce_scatter;
  if (reduces && (asked.op == Op::premul_sum || !supports(asked.dtype, asked.op)))
    bad(std::string(kOpNames[static_cast<std::size_t>(asked.op)]) + " is not defined for " +
        std::string(kDTypeNames[static_cast<std::size_t>(asked.dtype)]));
  if ((wish.prescale != 1 || wish.postscale != 1) && !is_float(asked.dtype))
    bad(std::string(kDTypeNames[static_cast<std::size_t>(asked.dtype)]) + " cannot be scaled: only floats can");
  if (asked.collective == Collective::broadcast && (asked.root < 0 || asked.root >= control_->size()))
    bad("the root must be a rank from 0 to " + std::to_string(control_->size() - 1) + ", got " +
        std::to_string(asked.root));
  if (asked.collective != Collective::all_to_all && asked.collective != Collective::reduce_scatter) return;
  std::size_t total = 0;
  for (const std::size_t count : wish.counts) total += count;
  if (wish.counts.size() != static_cast<std::size_t>(control_->size()) || total != wish.count)
    bad("counts must be " + std::to_string(control_->size()) + " numbers that add up to " + std::to_string(wish.count));
  if (asked.collective == Collective::reduce_scatter && wish.target == nullptr &&
      wish.counts[static_cast<std::size_t>(seat_.rank)] > 0)
    bad("the output is null but this rank's part holds elements");
}

// The last request of this name again, if it is the same.
RequestPtr Coordinator::request_for(const Name& name, const Wish& wish) const {
  const std::uint64_t bytes = wish.count * size_of(wish.what.dtype);
  if (const Request* last = name.request.get(); last != nullptr && last->what == wish.what && last->bytes == bytes &&
                                                last->shape == wish.shape && last->prescale == wish.prescale &&
                                                last->postscale == wish.postscale && last->priority == wish.priority &&
                                                last->bundle == wish.bundle)
    return name.request;
  return std::make_shared<const Request>(Request{std::string(wish.name), wish.what, std::string(wish.shape), bytes,
                                                 wish.prescale, wish.postscale, wish.priority, wish.bundle});
}

std::shared_ptr<Requested> Coordinator::submit(const Wish& wish) {
  check(wish);
  auto requested = std::make_shared<Requested>(*this);
  requested->data = wish.data;
  requested->target = wish.target;
  requested->counts = wish.counts;
  const auto now = Clock::now();
  const auto lock = loop_.enter();
  check_open(kCollectiveNames[static_cast<std::size_t>(wish.what.collective)], wish.name);
  auto found = names_.find(wish.name);
  if (found == names_.end()) found = names_.emplace(wish.name, Name{}).first;
  Name& name = found->second;
  name.request = requested->request = request_for(name, wish);
  requested->what = requested->request->what;
  const bool first = name.current == nullptr;
  if (first) {
    hand_in(name, requested, now);
  } else {
    name.waiting.push_back(requested);
  }
  add(*requested, now);
  if (first) follow_up();
  totals_.handing_in_ns += static_cast<std::uint64_t>(ns_of(Clock::now()) - ns_of(now));
  return requested;
}

std::shared_ptr<Requested> Coordinator::join() {
  const auto lock = loop_.enter();
  check_open("join");
  if (join_) throw Failure(ErrorKind::invalid, "this rank has joined already: wait for the others");
  const auto now = Clock::now();
  join_ = std::make_shared<Requested>(*this);
  join_->join = true;
  const auto joined = join_;
  policy_->join(seconds_of(now));
  add(*joined, now);
  follow_up();
  return joined;
}

void Coordinator::add(Requested& requested, Now now) {
  requested.id = loop_.next_id();
  requested.start(*control_, {});
  requested.started = requested.probed = now;
  requested.deadline = now + on_clock(control_->timeout);
  requested.record.request = requested.request;
  requested.record.submitted_ns = ns_of(now);
  if (pending_.empty()) asks_ = now + patience();
  requested.place = pending_.size();
  pending_.push_back(&requested);
}

void Coordinator::hand_in(Name& name, std::shared_ptr<Requested> requested, Now now) {
  policy_->submit(requested->request, seconds_of(now));
  requested->record.last = name.issued_before && policy_->missing(*requested->request).empty();
  name.current = std::move(requested);
}

// It is over: well, or as `error` says.
void Coordinator::settle(Requested& requested, const Error& error) {
  const auto now = Clock::now();
  requested.record.done_ns = ns_of(now);
  if (error) {
    requested.fail({error.kind, requested.description() + " failed: " + error.message, error.culprit});
  } else {
    requested.finish();
  }
  pending_[requested.place] = pending_.back();
  pending_[requested.place]->place = requested.place;
  pending_.pop_back();
  loop_.wake_callers();
  if (requested.notify) loop_.report(requested.id);
  if (requested.join) {
    join_.reset();
    return;
  }
  if (records_.size() < kRecords) records_.resize(records_.size() + 1);
  Record& record = records_[next_record_ % kRecords];
  record = std::move(requested.record);
  record.number = ++next_record_;
  const auto found = names_.find(requested.request->name);
  Name& name = found->second;
  if (name.current.get() != &requested) return;
  const auto keep = std::move(name.current);
  if (failing_) return;
  if (!name.waiting.empty()) {
    auto next = std::move(name.waiting.front());
    name.waiting.pop_front();
    try {
      hand_in(name, next, now);
    } catch (const Failure& failure) {
      name.current = next;
      settle(*next, {failure.kind, failure.what(), failure.culprit});
    }
  } else if (names_.size() > kNamesKept) {
    names_.erase(found);
  }
}

void Coordinator::get_going() {
  idle_ = false;
  if (state() == State::running) return;
  reset();
  id = own_id_;
  probes = false;
  deadline = Now::max();
  start(*control_, {});
  loop_.add(shared_from_this());
}

void Coordinator::follow_up() {
  get_going();
  submitting_ = true;
  loop_.step_now(*this);
  submitting_ = false;
}

void Coordinator::announce(Requested& requested) {
  const auto lock = loop_.enter();
  if (requested.notify) return;
  requested.notify = true;
  if (requested.over()) {
    loop_.report(requested.id);
  } else if (!requested.join && !requested.issued && !closed_) {
    policy_->wanted(*requested.request, seconds_of(Clock::now()));
    follow_up();
  }
}

void Coordinator::awaited(const Requested& requested) {
  if (!requested.join && !requested.issued && !closed_) policy_->awaited(*requested.request, seconds_of(Clock::now()));
}

}  // namespace paceline
