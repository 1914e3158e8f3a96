// What callers do with a coordinator: hand in, wait, ask, close.
#include "progress/coordinator.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "coordinate/shared_board.hpp"

namespace paceline {
namespace {

std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

double seconds_of(Clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

// At the beginning of a board: how many ranks have left it.
using Departures = std::atomic<std::uint64_t>;
constexpr std::size_t kBeforeBoard = kCacheLine;

}  // namespace

Coordinator::Coordinator(std::shared_ptr<Engine> engine, std::shared_ptr<Group> control, std::shared_ptr<Group> data,
                         std::string policy, PolicyOptions options, std::vector<int> machine_of)
    : engine_(std::move(engine)),
      control_(std::move(control)),
      policy_name_(std::move(policy)),
      polls_(!needs_board(policy_name_)),
      options_(options),
      seat_{control_->rank, std::move(machine_of)},
      partial_(static_cast<std::size_t>(control_->size())),
      departed_(static_cast<std::size_t>(control_->size()), Now::max()) {
  if (control_->size() != data->size() || control_->rank != data->rank || control_->size() != seat_.size())
    throw Failure(ErrorKind::invalid, "a coordinator's groups and machines must be of the same ranks");
  const auto& machines = seat_.machine_of;
  const int here = machines[static_cast<std::size_t>(seat_.rank)];
  leader_ = static_cast<int>(std::ranges::find(machines, here) - machines.begin());
  const auto lock = engine_->enter();
  control_->use = Group::Use::control;
  data->use = Group::Use::data;
  ++engine_->coordinators_;
  cpu_before_ = engine_->coordination_cpu_ns_;
  streams_.push_back(std::make_unique<Stream>(*this, std::move(data), 0));
  own_id_ = ++engine_->last_id_;
  sayings_id_ = ++engine_->last_id_;
  if (leader_ != seat_.rank || !needs_board(policy_name_)) return;
  const BoardShape shape{.ranks = static_cast<int>(std::ranges::count(machines, here))};
  own_board_ = std::make_unique<ArenaMemory>(engine_->arena_, kBeforeBoard + shape.bytes());
  std::memset(own_board_->data(), 0, own_board_->bytes());
}

Coordinator::~Coordinator() { close(); }

std::uint64_t Coordinator::board_offset() const {
  return own_board_ ? engine_->arena_->offset_of(own_board_->data()) : 0;
}

void Coordinator::open(std::uint64_t board_offset) {
  const auto lock = engine_->enter();
  if (policy_) throw Failure(ErrorKind::invalid, "this coordinator is open already");
  if (needs_board(policy_name_)) {
    const int here = seat_.machine_of[static_cast<std::size_t>(seat_.rank)];
    const BoardShape shape{.ranks = static_cast<int>(std::ranges::count(seat_.machine_of, here))};
    const std::size_t bytes = kBeforeBoard + shape.bytes();
    std::byte* memory = own_board_ ? own_board_->data() : nullptr;
    if (!own_board_) {
      const Link* link = control_->members[static_cast<std::size_t>(leader_)].link;
      const PeerArena* arena = link != nullptr ? link->arena() : nullptr;
      memory = arena != nullptr && board_offset % kCacheLine == 0 ? arena->at(board_offset, bytes) : nullptr;
    }
    if (memory == nullptr)
      throw Failure(ErrorKind::invalid, "the board of " + control_->name_of(leader_) + " cannot be seen from here");
    board_bytes_ = {memory, bytes};
    board_ = std::make_unique<SharedBoard>(board_bytes_.subspan(kBeforeBoard), shape);
  }
  policy_ = make_policy(policy_name_, options_, seat_, board_.get());
  follow_up();
}

void Coordinator::check_open(std::string_view request, std::string_view name) const {
  const auto refuse = [&](ErrorKind kind, const std::string& why) {
    std::string asked(request);
    if (!name.empty()) asked.append(" \"").append(name).append("\"");
    throw Failure(kind, asked + " cannot start: " + why);
  };
  if (!policy_) throw Failure(ErrorKind::invalid, "this coordinator is not open yet");
  if (closed_ || engine_->closed_) refuse(ErrorKind::aborted, "its coordinator is closed");
  for (const auto& stream : streams_)
    if (stream->group->error) refuse(stream->group->error.kind, stream->group->error.message);
  if (control_->error) refuse(control_->error.kind, control_->error.message);
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
  const auto lock = engine_->enter();
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
  const auto lock = engine_->enter();
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
  requested.id = ++engine_->last_id_;
  requested.start(*control_, {});
  requested.started = requested.probed = now;
  requested.deadline = now + std::chrono::duration_cast<Clock::duration>(control_->timeout);
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
    requested.fail({error.kind, requested.description() + " failed: " + error.message});
  } else {
    requested.finish();
  }
  pending_[requested.place] = pending_.back();
  pending_[requested.place]->place = requested.place;
  pending_.pop_back();
  engine_->others_.notify_all();
  if (requested.notify) {
    engine_->finished_.push_back(requested.id);
    engine_->wake_server();
  }
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
      settle(*next, {failure.kind, failure.what()});
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
  engine_->active_.push_back(shared_from_this());
}

// The caller goes its own way. Peers may sleep, and so may the thread in serve: one of them does the rest.
void Coordinator::follow_up() {
  get_going();
  if (engine_->listening_ && !engine_->parked_flags_) engine_->set_parked(true);
  submitting_ = true;
  engine_->step(*this);
  submitting_ = false;
  if (over()) engine_->retire();
  if (engine_->listening_ && wake < engine_->alarm_at_) engine_->set_alarm(wake);
  engine_->leave_to_server(has_work() || trouble());
}

void Coordinator::announce(Requested& requested) {
  const auto lock = engine_->enter();
  if (requested.notify) return;
  requested.notify = true;
  if (requested.over()) {
    engine_->finished_.push_back(requested.id);
    engine_->wake_server();
  } else if (!requested.join && !requested.issued && !closed_) {
    policy_->wanted(*requested.request, seconds_of(Clock::now()));
    follow_up();
  }
}

void Coordinator::awaited(const Requested& requested) {
  if (!requested.join && !requested.issued && !closed_) policy_->awaited(*requested.request, seconds_of(Clock::now()));
}

void Coordinator::set_order(const std::vector<std::vector<std::string>>& buffers) {
  const auto lock = engine_->enter();
  check_open("set_order");
  policy_->set_order(buffers);
  follow_up();
}

void Coordinator::tune(std::uint64_t fusion_bytes) {
  const auto lock = engine_->enter();
  check_open("tune");
  policy_->tune(fusion_bytes);
  follow_up();
}

paceline::Counters Coordinator::counters() {
  const auto lock = engine_->enter();
  return policy_ ? policy_->counters() : paceline::Counters{};
}

Totals Coordinator::totals() {
  const auto lock = engine_->enter();
  Totals totals = totals_;
  totals.background_cpu_ns = engine_->coordination_cpu_ns_ - cpu_before_;
  return totals;
}

std::vector<Record> Coordinator::records(std::uint64_t after) {
  const auto lock = engine_->enter();
  std::vector<Record> ordered;
  for (std::uint64_t n = std::max<std::uint64_t>(after, next_record_ - records_.size()); n < next_record_; ++n)
    ordered.push_back(records_[n % kRecords]);
  return ordered;
}

std::vector<std::string> Coordinator::sayings() {
  const auto lock = engine_->enter();
  return std::exchange(sayings_, {});
}

void Coordinator::close() {
  const auto lock = engine_->enter();
  if (closed_) return;
  closed_ = true;
  carry_weight(false);
  --engine_->coordinators_;
  if (!engine_->closed_) {
    if (state() == State::running) fail({ErrorKind::aborted, "its coordinator was closed"});
    for (int rank = 0; rank < control_->size() && !control_->error; ++rank)
      if (rank != seat_.rank) tell(rank, kClosing, {});
    for (const auto& stream : streams_) engine_->drop_group(*stream->group);
    engine_->drop_group(*control_);
    engine_->finished_.push_back(sayings_id_);
    engine_->wake_server();
  }
  streams_.clear();
  leave_board();
}

// The last to leave could give it back; who closes first does not wait for that.
void Coordinator::leave_board() {
  if (board_bytes_.empty()) return;
  auto& departures = *reinterpret_cast<Departures*>(board_bytes_.data());
  const auto ranks = static_cast<std::uint64_t>(board_->ranks());
  const bool last = departures.fetch_add(1) + 1 == ranks;
  if (own_board_ && !last) engine_->arena_->retire(own_board_->data());
  board_bytes_ = {};
}

// --- for warnings and deadlines

const Operation& Coordinator::urgent() const {
  const Operation* first = this;
  for (const Requested* requested : pending_)
    if (requested->deadline < first->deadline) first = requested;
  return *first;
}

std::vector<Operation::Waiting> Coordinator::waiting() const {
  std::vector<const Requested*> oldest_first(pending_.begin(), pending_.end());
  std::ranges::sort(oldest_first, {}, [](const Requested* requested) { return requested->id; });
  std::vector<Waiting> found;
  std::map<std::vector<int>, std::size_t> seen;
  for (const Requested* requested : oldest_first) {
    const auto [at, fresh] = seen.emplace(missing(*requested), found.size());
    if (fresh) {
      found.push_back({requested, 0});
    } else {
      ++found[at->second].more;
    }
  }
  return found;
}

std::vector<int> Coordinator::missing(const Requested& requested) const {
  std::vector<int> ranks;
  if (!requested.issued && !requested.join) {
    ranks = policy_->missing(*requested.request);
    if (ranks.empty())
      for (std::size_t rank = 0; rank < requested.handed_in.size(); ++rank)
        if (!requested.handed_in[rank]) ranks.push_back(static_cast<int>(rank));
  }
  if (!ranks.empty()) return ranks;
  // All are ready: it waits for what is under way before it, or for its own data.
  const auto add_all = [&](const Operation& operation) {
    const auto absent = operation.absent();
    for (const int rank : absent.empty() ? operation.missing() : absent)
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (const auto& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front().carriage)
      for (const Handle& handle : stream->queue.front().carriage->moving())
        if (!handle->over()) add_all(*handle);
  if (synchronising_ && !synchronising_->over()) add_all(*synchronising_);
  return ranks;
}

}  // namespace paceline
