// How callers hand in requests to a coordinator, and how requests end.
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

void Coordinator::check(const RequestArguments& arguments) const {
  const auto bad = [&](const std::string& sentence) {
    throw Failure(ErrorKind::invalid, '"' + std::string(arguments.name) + "\": " + sentence);
  };
  if (arguments.name.empty()) bad("a request needs a name");
  if (arguments.data == nullptr && arguments.count > 0) bad("the buffer is null but holds elements");
  const Fingerprint& asked = arguments.what;
  const bool reduces = asked.collective == Collective::all_reduce || asked.collective == Collective::reduce_scatter;
  if (reduces && (asked.op == Op::premul_sum || !supports(asked.dtype, asked.op)))
    bad(std::string(kOpNames[static_cast<std::size_t>(asked.op)]) + " is not defined for " +
        std::string(kDTypeNames[static_cast<std::size_t>(asked.dtype)]));
  if ((arguments.prescale != 1 || arguments.postscale != 1) && !is_float(asked.dtype))
    bad(std::string(kDTypeNames[static_cast<std::size_t>(asked.dtype)]) + " cannot be scaled: only floats can");
  if (asked.codec != Codec::none)
    if (const std::string why = cannot_encode(asked.codec, asked.dtype, asked.op); !why.empty()) bad(why);
  if (arguments.residual != nullptr && (asked.codec == Codec::none || asked.collective != Collective::all_reduce))
    bad("only an all_reduce with a codec has a residual");
  if (asked.collective == Collective::broadcast && (asked.root < 0 || asked.root >= control_->size()))
    bad("the root must be a rank from 0 to " + std::to_string(control_->size() - 1) + ", got " +
        std::to_string(asked.root));
  if (asked.collective != Collective::all_to_all && asked.collective != Collective::reduce_scatter) return;
  std::size_t total = 0;
  for (const std::size_t count : arguments.counts) total += count;
  if (arguments.counts.size() != static_cast<std::size_t>(control_->size()) || total != arguments.count)
    bad("counts must be " + std::to_string(control_->size()) + " numbers that add up to " +
        std::to_string(arguments.count));
  if (asked.collective == Collective::reduce_scatter && arguments.target == nullptr &&
      arguments.counts[static_cast<std::size_t>(seat_.rank)] > 0)
    bad("the output is null but this rank's part holds elements");
}

// Returns the last request of this name again, if it is the same.
RequestPtr Coordinator::request_for(const Name& name, const RequestArguments& arguments) const {
  const std::uint64_t bytes = arguments.count * size_of(arguments.what.dtype);
  if (const Request* last = name.request.get();
      last != nullptr && last->what == arguments.what && last->bytes == bytes && last->shape == arguments.shape &&
      last->prescale == arguments.prescale && last->postscale == arguments.postscale &&
      last->priority == arguments.priority && last->bundle == arguments.bundle)
    return name.request;
  return std::make_shared<const Request>(Request{std::string(arguments.name), arguments.what,
                                                 std::string(arguments.shape), bytes, arguments.prescale,
                                                 arguments.postscale, arguments.priority, arguments.bundle});
}

std::shared_ptr<PendingRequest> Coordinator::submit(const RequestArguments& arguments) {
  check(arguments);
  auto pending = std::make_shared<PendingRequest>(*this);
  pending->data = arguments.data;
  pending->target = arguments.target;
  pending->residual = arguments.residual;
  pending->counts = arguments.counts;
  const auto now = Clock::now();
  const auto lock = loop_.enter();
  check_open(kCollectiveNames[static_cast<std::size_t>(arguments.what.collective)], arguments.name);
  auto found = names_.find(arguments.name);
  if (found == names_.end()) found = names_.emplace(arguments.name, Name{}).first;
  Name& name = found->second;
  name.request = pending->request = request_for(name, arguments);
  pending->what = pending->request->what;
  const bool first = name.current == nullptr;
  if (first) {
    hand_in(name, pending, now);
  } else {
    name.waiting.push_back(pending);
  }
  add(*pending, now);
  if (first) follow_up();
  totals_.handing_in_ns += static_cast<std::uint64_t>(ns_of(Clock::now()) - ns_of(now));
  return pending;
}

std::shared_ptr<PendingRequest> Coordinator::join() {
  const auto lock = loop_.enter();
  check_open("join");
  if (join_) throw Failure(ErrorKind::invalid, "this rank has joined already: wait for the others");
  const auto now = Clock::now();
  join_ = std::make_shared<PendingRequest>(*this);
  join_->join = true;
  const auto joined = join_;
  policy_->join(seconds_of(now));
  add(*joined, now);
  follow_up();
  return joined;
}

void Coordinator::add(PendingRequest& pending, Now now) {
  pending.id = loop_.next_id();
  pending.start(*control_, {});
  pending.started = pending.probed = now;
  pending.deadline = now + on_clock(control_->timeout);
  pending.record.request = pending.request;
  pending.record.submitted_ns = ns_of(now);
  if (pending_.empty()) asks_ = now + patience();
  pending.place = pending_.size();
  pending_.push_back(&pending);
}

void Coordinator::hand_in(Name& name, std::shared_ptr<PendingRequest> pending, Now now) {
  policy_->submit(pending->request, seconds_of(now));
  pending->record.last = name.issued_before && policy_->missing(*pending->request).empty();
  name.current = std::move(pending);
}

// Ends a request, well, or with this error.
void Coordinator::settle(PendingRequest& pending, const Error& error) {
  const auto now = Clock::now();
  pending.record.done_ns = ns_of(now);
  if (error) {
    pending.fail({error.kind, pending.description() + " failed: " + error.message, error.culprit});
  } else {
    pending.finish();
  }
  pending_[pending.place] = pending_.back();
  pending_[pending.place]->place = pending.place;
  pending_.pop_back();
  loop_.wake_callers();
  if (pending.notify) loop_.report(pending.id);
  if (pending.join) {
    join_.reset();
    return;
  }
  if (records_.size() < kRecords) records_.resize(records_.size() + 1);
  Record& record = records_[next_record_ % kRecords];
  record = std::move(pending.record);
  record.number = ++next_record_;
  const auto found = names_.find(pending.request->name);
  Name& name = found->second;
  if (name.current.get() != &pending) return;
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

void Coordinator::announce(PendingRequest& pending) {
  const auto lock = loop_.enter();
  if (pending.notify) return;
  pending.notify = true;
  if (pending.over()) {
    loop_.report(pending.id);
  } else if (!pending.join && !pending.issued && !closed_) {
    policy_->wanted(*pending.request, seconds_of(Clock::now()));
    follow_up();
  }
}

void Coordinator::awaited(const PendingRequest& pending) {
  if (!pending.join && !pending.issued && !closed_) policy_->awaited(*pending.request, seconds_of(Clock::now()));
}

}  // namespace paceline
