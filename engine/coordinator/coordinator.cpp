#include "coordinator/coordinator.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "progress/times.hpp"

namespace paceline {
namespace {

// Throws Failure (invalid) if the groups and the machines are not of the same ranks.
Seat seat_of(const Group& control, const Group& data, std::vector<int> machine_of) {
  Seat seat{control.rank, std::move(machine_of)};
  if (control.size() != data.size() || control.rank != data.rank || control.size() != seat.size())
    throw Failure(ErrorKind::invalid, "a coordinator's groups and machines must be of the same ranks");
  return seat;
}

}  // namespace

Coordinator::Coordinator(const std::shared_ptr<Engine>& engine, const std::shared_ptr<Group>& control,
                         const std::shared_ptr<Group>& data, std::string policy, PolicyOptions options,
                         std::vector<int> machine_of)
    : Coordinator(engine, control, data, std::move(policy), options, seat_of(*control, *data, std::move(machine_of)),
                  engine->host().enter()) {}

Coordinator::Coordinator(std::shared_ptr<Engine> engine, std::shared_ptr<Group> control,
                         const std::shared_ptr<Group>& data, std::string policy, PolicyOptions options, Seat seat,
                         const std::unique_lock<std::mutex>&)
    : engine_(std::move(engine)),
      loop_(engine_->host()),
      control_(std::move(control)),
      policy_name_(std::move(policy)),
      options_(options),
      seat_(std::move(seat)),
      warnings_(loop_),
      boards_(loop_, *control_, seat_, boards_of(policy_name_)),
      correspondence_(loop_, *control_),
      agreement_(*engine_, control_, correspondence_, warnings_, totals_),
      batches_(
          engine_, data, [this](PendingRequest& pending) { requests_.settle(pending); },
          [this] {
            if (state() == State::running) loop_.step_now(*this);
          }),
      requests_(loop_, control_, agreement_, batches_.device_calls()),
      absentees_(agreement_, batches_),
      departures_(*control_, correspondence_),
      inquiries_(*control_, seat_, requests_, absentees_, correspondence_, warnings_),
      cpu_before_(loop_.coordination_cpu_ns()),
      own_id_(loop_.next_id()) {
  control_->use = Group::Use::control;
  data->use = Group::Use::data;
  loop_.admit(*this);
}

// The engine may let go of it last, with its lock held, once it is closed.
Coordinator::~Coordinator() {
  if (!closed_) close();
}

void Coordinator::open(std::uint64_t board_offset) {
  const auto lock = loop_.enter();
  if (agreement_.is_open()) throw Failure(ErrorKind::invalid, "this coordinator is open already");
  agreement_.open(make_policy(policy_name_, options_, seat_, boards_.open(board_offset)));
  step_now();
}

void Coordinator::set_order(const std::vector<std::vector<std::string>>& buffers) {
  const auto lock = loop_.enter();
  check_open("set_order");
  agreement_.policy().set_order(buffers);
  step_now();
}

void Coordinator::tune(std::uint64_t fusion_bytes) {
  const auto lock = loop_.enter();
  check_open("tune");
  agreement_.policy().tune(fusion_bytes);
  step_now();
}

void Coordinator::use(const std::string& name, const std::vector<std::vector<std::string>>& buffers) {
  const auto lock = loop_.enter();
  check_open("use");
  agreement_.policy().use(name, buffers);
  step_now();
}

Policy::Use Coordinator::in_use() {
  const auto lock = loop_.enter();
  return agreement_.is_open() ? agreement_.policy().in_use() : Policy::Use{};
}

paceline::Counters Coordinator::counters() {
  const auto lock = loop_.enter();
  return agreement_.is_open() ? agreement_.policy().counters() : paceline::Counters{};
}

Totals Coordinator::totals() {
  const auto lock = loop_.enter();
  Totals totals = totals_;
  totals.background_cpu_ns = loop_.coordination_cpu_ns() - cpu_before_;
  return totals;
}

std::vector<Record> Coordinator::records(std::uint64_t after) {
  const auto lock = loop_.enter();
  return requests_.records(after);
}

std::vector<std::string> Coordinator::warnings() {
  const auto lock = loop_.enter();
  return warnings_.take();
}

void Coordinator::close() {
  if (!loop_.inherited()) {
    const auto lock = loop_.enter();
    leave();
  }
  batches_.device_calls().close();
}

void Coordinator::leave() {
  if (closed_) return;
  closed_ = true;
  carry_weight(false);
  loop_.dismiss(*this);
  if (!control_->error) departures_.tell(ended(), state() == State::failed ? error() : Error{});
  if (state() == State::running) fail({ErrorKind::aborted, "its coordinator was closed"});
  batches_.drop();
  loop_.drop_group(*control_);
  warnings_.report();
  boards_.leave();
}

void Coordinator::check_open(std::string_view request, std::string_view name) const {
  const auto refuse = [&](const Error& why) {
    std::string asked(request);
    if (!name.empty()) asked.append(" \"").append(name).append("\"");
    throw Failure({why.kind, asked + " cannot start: " + why.message, why.culprit}, asked, std::string(name));
  };
  if (!agreement_.is_open()) throw Failure(ErrorKind::invalid, "this coordinator is not open yet");
  if (closed_ || loop_.closed()) refuse({ErrorKind::aborted, "its coordinator is closed"});
  if (const Error* error = batches_.error()) refuse(*error);
  if (control_->error) refuse(control_->error);
  if (state() == State::failed) refuse(error());
}

void Coordinator::check(const RequestArguments& arguments) const {
  arguments.check(seat_.rank, control_->size());
  if (arguments.on_device && takes_back(policy_name_))
    throw Failure(ErrorKind::invalid,
                  "the policy " + policy_name_ + " may take back what it has begun, which a device cannot");
}

std::shared_ptr<PendingRequest> Coordinator::submit(const RequestArguments& arguments,
                                                    PendingRequest::Callback callback) {
  check(arguments);
  auto pending = std::make_shared<PendingRequest>(*this);
  pending->call = arguments.call;
  pending->counts = arguments.counts;
  pending->allocate = arguments.allocate;
  pending->callback = std::move(callback);
  pending->after = moment_of(arguments);
  const auto now = Clock::now();
  const auto lock = loop_.enter();
  check_open(kCollectiveNames[static_cast<std::size_t>(arguments.call.collective)], arguments.name);
  if (arguments.alone && requests_.has(arguments.name))
    throw Failure(ErrorKind::invalid, std::string(arguments.name) +
                                          " is still under way: a tensor with the same name as another that is "
                                          "currently being processed needs a name of its own");
  if (arguments.on_device) batches_.device_calls().admit(pending->after, arguments.on_device->devices);
  if (requests_.submit(pending, arguments, now)) step_now();
  totals_.submitting_ns += static_cast<std::uint64_t>(ns_of(Clock::now()) - ns_of(now));
  return pending;
}

// The lock is not held: see DeviceCalls. The others wait for what this rank cannot submit.
std::shared_ptr<device::Moment> Coordinator::moment_of(const RequestArguments& arguments) {
  try {
    return arguments.moment(seat_.rank);
  } catch (const device::DriverError& failure) {
    const std::string& here = control_->members[static_cast<std::size_t>(seat_.rank)].description;
    const Error error{ErrorKind::aborted, control_->name_of(seat_.rank) + ": " + failure.what(), here};
    const auto lock = loop_.enter();
    loop_.fail_group(*control_, error);
    throw Failure(error);
  }
}

std::shared_ptr<PendingRequest> Coordinator::join() {
  const auto lock = loop_.enter();
  check_open("join");
  if (join_) throw Failure(ErrorKind::invalid, "this rank has joined already: wait for the others");
  join_ = std::make_shared<PendingRequest>(*this);
  const auto joined = join_;
  requests_.join(*joined, Clock::now());
  step_now();
  return joined;
}

void Coordinator::resume() {
  idle_ = false;
  if (state() == State::running) return;
  reset();
  id = own_id_;
  probes = false;
  deadline = Now::max();
  start(*control_, {});
  loop_.add(shared_from_this());
}

void Coordinator::step_now() {
  resume();
  submitting_ = true;
  loop_.step_now(*this);
  submitting_ = false;
}

void Coordinator::announce(PendingRequest& pending) {
  const auto lock = loop_.enter();
  if (pending.notify) return;
  pending.notify = true;
  if (pending.over())
    loop_.report(pending.id);
  else
    want(pending);
}

void Coordinator::polled(PendingRequest& pending) {
  if (pending.wanted) return;  // only its caller's threads write this
  const auto lock = loop_.enter();
  want(pending);
}

void Coordinator::want(PendingRequest& pending) {
  if (std::exchange(pending.wanted, true)) return;
  if (pending.join || pending.issued || pending.over() || closed_) return;
  agreement_.policy().wanted(*pending.request, seconds_of(Clock::now()));
  step_now();
}

void Coordinator::awaited(PendingRequest& pending) {
  pending.blocks = true;
  if (!pending.join && !pending.issued && !closed_)
    agreement_.policy().awaited(*pending.request, seconds_of(Clock::now()));
}

bool Coordinator::step() {
  try {
    return advance(Clock::now());
  } catch (const Failure& failure) {
    const bool wrong = failure.kind == ErrorKind::invalid;
    trouble_ = {wrong ? ErrorKind::aborted : failure.kind, failure.what(), failure.culprit};
  } catch (const std::bad_alloc&) {
    trouble_ = {ErrorKind::aborted, control_->name_of(seat_.rank) + " has no memory left in its arena"};
  }
  // The error of a group is nearer to the cause.
  if (const Error* error = batches_.error()) trouble_ = *error;
  return false;
}

bool Coordinator::advance(Now now) {
  if (const Error* error = batches_.error()) throw Failure(*error);
  bool moved = receive(now);
  moved |= agreement_.look(now);
  moved |= act(now);
  CpuMeter* const meter = loop_.meter();
  const bool apart = batches_.bytes() > 0 && meter != nullptr && meter->work() == CpuMeter::Work::coordination;
  if (apart) meter->turn_to(CpuMeter::Work::other);
  while (advance_batches()) {
    moved = true;
    if (!act(now)) break;
  }
  end_join();
  agreement_.ring_if_due();
  if (const Error* why = departures_.needed_after(ended())) stop_agreeing(*why);
  ask(now);
  wake = std::min(agreement_.wakes(), asks_);
  const bool busy = batches_.bytes() > 0;
  rest = agreement_.rest(busy);
  carry_weight(busy && rest != Rest::spin && rest != Rest::yield);
  if (apart && !carries_) meter->turn_to(CpuMeter::Work::coordination);
  idle_ = requests_.under_way().empty() && !busy && agreement_.idle();
  return moved;
}

bool Coordinator::receive(Now now) {
  return correspondence_.receive([&](int from, Correspondence::Kind kind, std::span<const std::byte> message) {
    switch (kind) {
      case Correspondence::closing: return departures_.receive(from, message);
      case Correspondence::ask: return inquiries_.answer(from, message, joins(), ended());
      case Correspondence::have: return inquiries_.hear_of_submission(from, message);
      case Correspondence::await: return inquiries_.hear_of_wait(from, message, joins(), ended());
      default: return agreement_.policy().receive(from, message, seconds_of(now));
    }
  });
}

bool Coordinator::act(Now now) {
  bool moved = false;
  while (auto decision = agreement_.next(now, submitting_)) {
    moved = true;
    std::visit([&](auto& one) { carry_out(one); }, *decision);
  }
  return moved;
}

void Coordinator::carry_out(Issue& action) {
  const auto now = Clock::now();
  std::vector<Carried> batch;
  std::uint64_t bytes = 0;
  std::uint64_t packed = 0;
  for (RequestPtr& request : action.requests) {
    auto own = requests_.issue(request->name, totals_.batches, now);
    if (own && own->record.last.value_or(false)) count_negotiation(*own);
    if (!action.error.empty()) {
      if (own) requests_.settle(*own, {ErrorKind::mismatch, action.error});
      continue;
    }
    bytes += request->bytes;
    if (is_packed(*request)) packed += request->bytes;
    batch.push_back({std::move(request), std::move(own)});
  }
  if (batch.empty()) {
    batches_.skip(action.channel);
    ++ended_without_batch_;
    return;
  }
  ++totals_.batches;
  if (batch.size() > 1) totals_.fused_bytes += packed;
  batches_.add(action.channel, std::move(batch), bytes);
  agreement_.policy().busy(batches_.bytes());
}

void Coordinator::count_negotiation(const PendingRequest& issued) {
  const auto took = static_cast<std::uint64_t>(issued.record.negotiated_ns - issued.record.submitted_ns);
  totals_.negotiation_ns += took;
  totals_.longest_negotiation_ns = std::max(totals_.longest_negotiation_ns, took);
  ++totals_.negotiations;
}

void Coordinator::carry_out(const Cancel& action) {
  batches_.cancel(action);
  agreement_.policy().busy(batches_.bytes());
}

void Coordinator::carry_out(const Joined& action) {
  if (join_) join_->last_to_join = action.last;
}

bool Coordinator::advance_batches() {
  const auto before = batches_.bytes();
  const bool moved = batches_.advance(submitting_);
  if (batches_.bytes() != before) agreement_.policy().busy(batches_.bytes());
  return moved;
}

// A rank whose join is over may leave. Before that it gives the others what they still wait for.
void Coordinator::end_join() {
  if (!join_ || joins() || batches_.bytes() > 0) return;
  ++ended_without_batch_;
  requests_.settle(*std::exchange(join_, nullptr));
}

void Coordinator::ask(Now now) {
  if (requests_.under_way().empty()) {
    asks_ = Now::max();
  } else if (asks_ == Now::max()) {
    asks_ = now + inquiries_.patience();
  } else if (now >= asks_) {
    asks_ = now + inquiries_.patience();
    inquiries_.ask(now);
  }
}

// A rank has left that is needed, so that ranks will not agree on anything any more. The others find that out by
// themselves: they may still be about to end what this rank has ended, unless the rank that left gave up something in
// the middle.
void Coordinator::stop_agreeing(const Error& error) {
  if (batches_.bytes() > 0) throw Failure(error);
  agreement_.give_up(error);
  if (!requests_.under_way().empty()) fail(error);
}

void Coordinator::group_failed(const Error& error) {
  batches_.fail_groups(error);
  fail(error);
}

void Coordinator::let_go(const Error& error) {
  requests_.fail_all(error);
  join_.reset();
  batches_.clear();
  agreement_.clear();
  carry_weight(false);
}

// Tells the loop whether it moves data: see CpuMeter.
void Coordinator::carry_weight(bool carries) {
  if (carries != carries_) loop_.count_carrying(carries);
  carries_ = carries;
}

const Operation& Coordinator::urgent() const {
  const Operation* first = this;
  for (const PendingRequest* pending : requests_.under_way())
    if (pending->deadline < first->deadline) first = pending;
  return *first;
}

void Coordinator::postpone(Clock::time_point from, Clock::time_point to, Clock::duration usual) {
  for (PendingRequest* const pending : requests_.under_way()) pending->postpone(from, to, usual);
}

std::vector<Operation::Waiting> Coordinator::waiting() const {
  std::vector<Waiting> found;
  std::map<std::vector<int>, std::size_t> seen;
  for (const PendingRequest* pending : requests_.oldest_first()) {
    const auto [at, fresh] = seen.emplace(missing(*pending), found.size());
    if (fresh) {
      found.push_back({pending, 0});
    } else {
      ++found[at->second].more;
    }
  }
  return found;
}

}  // namespace paceline
