#include "simulate/job.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "failure/error.hpp"
#include "policy/plain_board.hpp"

namespace paceline::simulate {

namespace {

// What random numbers are for.
enum Draw : std::uint64_t { of_compute, of_delay, of_oversleeping, of_oversleep, of_slice, of_together };

// Bytes of a policy that are fetched ahead: nearly all of a polling one.
constexpr std::size_t kFetched = 896;

// As large as a job's boards ever need to be, in slots and words; the memory is taken as it is used.
constexpr std::uint32_t kSlots = 1 << 16;
constexpr std::size_t kWords = std::size_t{1} << 24;

}  // namespace

Job::Job(JobModel model)
    : model_((check(model), std::move(model))),
      random_(model_.seed),
      meetings_(model_.machine_of.size(), model_.transfer.synchronise),
      traffic_(model_.machine_of.size(), model_.transfer) {
  for (const Gradient& gradient : model_.gradients) {
    Request request;
    request.name = gradient.name;
    request.what = {gradient.elements, -1, Collective::all_reduce, DType::float32, Op::sum};
    request.bytes = agreed_bytes(request);
    requests_.push_back(std::make_shared<const Request>(std::move(request)));
    ready_.push_back(gradient.ready);
  }
  std::vector<std::size_t> by_time(requests_.size());
  std::iota(by_time.begin(), by_time.end(), 0);
  std::ranges::stable_sort(by_time, {}, [&](std::size_t i) { return ready_[i]; });
  std::vector<RequestPtr> requests;
  std::vector<double> ready;
  for (const std::size_t i : by_time) {
    requests.push_back(requests_[i]);
    ready.push_back(ready_[i]);
  }
  requests_ = std::move(requests);
  ready_ = std::move(ready);
  for (std::size_t i = 0; i < requests_.size(); ++i) index_[requests_[i].get()] = i;
  make_ranks();
}

void Job::make_ranks() {
  const auto size = static_cast<int>(model_.machine_of.size());
  for (int rank = 0; rank < size; ++rank) locals_[model_.machine_of[static_cast<std::size_t>(rank)]].push_back(rank);
  ranks_.resize(model_.machine_of.size());
  Seat seat{0, model_.machine_of};
  for (int rank = 0; rank < size; ++rank) {
    const int machine = model_.machine_of[static_cast<std::size_t>(rank)];
    std::vector<BoardMemory*> boards;
    if (boards_of(model_.policy) == 1) {
      auto& board = boards_[machine];
      if (!board) board = std::make_unique<PlainBoard>(static_cast<int>(locals_[machine].size()), kSlots, kWords);
      boards.push_back(board.get());
    }
    seat.rank = rank;
    at(rank).policy = make_policy(model_.policy, model_.options, seat, boards);
  }
  for (int rank = 0; rank < size; ++rank) {
    if (model_.policy == "graph") at(rank).policy->set_order(model_.order);
    drain(rank, 0);
  }
}

StepFigures Job::step() {
  left_ = requests_.size();
  over_.assign(left_, false);
  oldest_ = 0;
  traffic_.forget();
  const double begins = began_ = begins_;
  const std::uint64_t batches = traffic_.over();
  const std::uint64_t messages = post_.sent();
  std::uint64_t cycles = 0;
  for (int number = 0; number < size(); ++number) {
    Rank& rank = at(number);
    cycles += rank.policy->counters().cycles;
    const double seconds = computes(number);
    rank.spinning = rank.contended = rank.oversleep = 0;
    rank.submitted = false;
    rank.seconds = seconds;
    rank.ready = begins + ready_.back() * seconds;
    rank.next = 0;
    plan_submission(number);
  }
  while (left_ > 0) {
    if (queue_.empty()) throw std::logic_error("the policy " + model_.policy + " has stopped before the step was over");
    const auto event = queue_.take();
    // With many ranks, what the next one needs is in no cache.
    if (!queue_.empty()) fetch(queue_.next().what.rank);
    happen(event);
  }
  const double over = now_;
  begins_ = over + model_.compute.after;
  StepFigures figures;
  double last = 0;
  for (const Rank& rank : ranks_) last = std::max(last, rank.ready);
  for (Rank& rank : ranks_) {
    const double stalled = std::clamp(last, rank.ready, std::max(rank.ready, rank.issued));
    const double computed = rank.ready - begins;
    const double own = model_.compute.samples.empty() ? std::min(model_.compute.seconds, computed) : computed;
    figures.computation += own;
    figures.delay += computed - own;
    figures.last_rank += stalled - rank.ready;
    const double issued = std::max(rank.issued, rank.ready);
    const double from = std::max(traffic_.last_begun(), issued);
    const double negotiating = traffic_.carrying(stalled, issued);
    const double awaiting = traffic_.carrying(issued, from);
    figures.negotiation += issued - stalled - negotiating;
    figures.peers += from - issued - awaiting;
    figures.transfer += over - from + negotiating + awaiting;
    figures.spinning += rank.spinning;
    figures.oversleep += rank.oversleep;
    figures.cycles += rank.policy->counters().cycles;
  }
  for (double* mean : {&figures.computation, &figures.delay, &figures.last_rank, &figures.negotiation, &figures.peers,
                       &figures.transfer, &figures.spinning, &figures.oversleep})
    *mean /= size();
  figures.after = model_.compute.after;
  figures.seconds = begins_ - begins;
  figures.cycles -= cycles;
  figures.messages = post_.sent() - messages;
  figures.batches = traffic_.over() - batches;
  ++steps_;
  return figures;
}

void Job::fetch(int number) const {
  const auto* const policy = reinterpret_cast<const std::byte*>(ranks_[static_cast<std::size_t>(number)].policy.get());
  for (std::size_t line = 0; line < kFetched; line += 64) __builtin_prefetch(policy + line);
}

std::vector<double> Job::ready() const {
  std::vector<double> found;
  found.reserve(ranks_.size());
  for (const Rank& rank : ranks_) found.push_back(rank.ready);
  return found;
}

// Until the rank has computed all of its step.
double Job::computes(int number) {
  const Compute& compute = model_.compute;
  const auto rank = static_cast<std::uint64_t>(number);
  const auto one_of = [this](std::size_t count, Draw what, std::uint64_t of) {
    return static_cast<std::size_t>(std::ceil(random_.uniform(what, of, steps_) * static_cast<double>(count))) - 1;
  };
  double seconds = compute.seconds;
  if (const auto& samples = compute.samples; compute.whole)
    seconds = samples[one_of(samples.size() / ranks_.size(), of_together, 0) * ranks_.size() + rank];
  else if (!samples.empty())
    seconds = samples[one_of(samples.size(), of_compute, rank)];
  if (const auto& all = compute.together; !all.empty())
    seconds = std::max(0.0, seconds + all[one_of(all.size(), of_together, 0)]);
  if (!compute.later.empty()) seconds += compute.later[static_cast<std::size_t>(number)];
  return seconds +
         random_.exponential(model_.cores.slower(at(number).contended) * compute.delay, of_delay, rank, steps_);
}

void Job::happen(const EventQueue<What>::Event& event) {
  if (event.at < now_) throw std::logic_error("simulated time runs backwards");
  now_ = event.at;
  const int number = event.what.rank;
  if (event.what.kind == Kind::batch_over) return end_batch(now_);
  if (event.what.kind != Kind::submit) ++events_;
  Rank& rank = at(number);
  if (!rank.submitted) catch_up(number, now_);
  switch (event.what.kind) {
    case Kind::submit: return submit(number, now_);
    case Kind::wake:
      if (event.what.detail == rank.sleep) wake(number, now_);
      return;
    case Kind::look: return drain(number, now_);
    case Kind::deliver: {
      const double now = rank.free = std::max(now_, rank.free) + model_.thread.message;
      const Post::Message message = post_.take(event.what.detail);
      rank.policy->receive(message.from, message.bytes, now);
      return drain(number, now);
    }
    case Kind::outcome: return hear_outcome(number, now_);
    case Kind::batch_over: return;
  }
}

// A policy that polls only notes what is submitted until it wakes up, so that it is told then (see `catch_up`). What
// happens when all is submitted cannot wait.
void Job::plan_submission(int number) {
  Rank& rank = at(number);
  const std::size_t next = rank.policy->polls() ? ready_.size() - 1 : rank.next;
  queue_.add(submitted_at(rank, next), {Kind::submit, number, 0});
}

// The rank submits what has become ready.
void Job::catch_up(int number, double now) {
  Rank& rank = at(number);
  for (double at = 0; rank.next < ready_.size() && (at = submitted_at(rank, rank.next)) <= now; ++rank.next) {
    rank.policy->submit(requests_[rank.next], at);
    ++events_;
  }
}

void Job::submit(int number, double now) {
  Rank& rank = at(number);
  catch_up(number, now);
  if (rank.next < ready_.size()) plan_submission(number);
  drain(number, now);
  if (rank.next < ready_.size()) return;
  rank.submitted = true;
  await_oldest(number, now);
}

// A caller that has submitted everything waits for its gradients, the oldest first.
void Job::await_oldest(int number, double now) {
  if (!model_.awaits || !at(number).submitted || oldest_ == requests_.size()) return;
  at(number).policy->awaited(*requests_[oldest_], now);
  drain(number, now);
}

void Job::hear_outcome(int number, double now) {
  Rank& rank = at(number);
  rank.synchronising = false;
  if (rank.wait != Synchronise::Wait::test) rank.spinning += now - rank.gave_at;
  if (rank.wait == Synchronise::Wait::spin)
    rank.contended += model_.cores.contended(rank.gave_at - began_, now - began_);
  rank.policy->synchronised(meetings_.tell(number), now);
  drain(number, now);
}

void Job::wake(int number, double now) {
  Rank& rank = at(number);
  const bool tests = rank.synchronising && rank.wait == Synchronise::Wait::test;
  if (tests && meetings_.complete(number) && meetings_.last(number).over <= now) hear_outcome(number, now);
  rank.policy->wake(now);
  drain(number, now);
}

void Job::end_batch(double now) {
  const std::vector<RequestPtr> requests = traffic_.end();
  const std::uint64_t bytes = std::max<std::uint64_t>(bytes_of(requests), 1);
  events_ += requests.size() * ranks_.size();
  left_ -= requests.size();
  for (const RequestPtr& request : requests) over_[index_.at(request.get())] = true;
  while (oldest_ < over_.size() && over_[oldest_]) ++oldest_;
  for (int number = 0; number < size(); ++number) {
    Rank& rank = at(number);
    if (!rank.submitted) catch_up(number, now);
    rank.busy -= bytes;
    rank.policy->busy(rank.busy);
    drain(number, now);
    await_oldest(number, now);
  }
}

// As the engine's coordinator does after whatever has happened.
void Job::drain(int number, double now) {
  Policy& policy = *at(number).policy;
  policy.look(now);
  while (auto action = policy.next()) carry_out(number, *action, now);
}

void Job::carry_out(int number, Action& action, double now) {
  if (auto* batch = std::get_if<Issue>(&action)) {
    issue(number, *batch, now);
  } else if (auto* message = std::get_if<Send>(&action)) {
    send(number, *message, now);
  } else if (auto* meeting = std::get_if<Synchronise>(&action)) {
    synchronise(number, *meeting, now);
  } else if (const auto* pause = std::get_if<Sleep>(&action)) {
    sleep(number, pause->until, now);
  } else if (std::holds_alternative<Ring>(action)) {
    ring(number, now);
  } else if (std::holds_alternative<Cancel>(action)) {
    throw Failure(ErrorKind::invalid,
                  "the order of buffers does not fit the order in which gradients become ready: rank " +
                      std::to_string(number) + " has deviated from it");
  }
}

void Job::sleep(int number, double until, double now) {
  Rank& rank = at(number);
  ++rank.sleep;
  const auto stream = static_cast<std::uint64_t>(number);
  double late = 0;
  if (until > now) {
    const std::uint64_t turn = ++rank.turn;
    late = random_.uniform(of_oversleeping, stream, turn) <= model_.thread.oversleeps
               ? random_.exponential(model_.thread.oversleep, of_oversleep, stream, turn)
               : model_.thread.wake;
    late += model_.cores.wakes_late(until - began_, until - now, random_.uniform(of_slice, stream, turn));
    rank.oversleep += late;
  }
  queue_.add(std::max(until, now) + late, {Kind::wake, number, rank.sleep});
}

void Job::send(int number, Send& action, double now) {
  if (action.to == number) return at(number).policy->receive(number, action.message, now);
  const std::uint32_t place = post_.send(number, std::move(action.message));
  Rank& rank = at(number);
  rank.free = std::max(rank.free, now) + model_.thread.message;
  queue_.add(rank.free + model_.transfer.latency, {Kind::deliver, action.to, place});
}

void Job::ring(int number, double now) {
  for (const int other : locals_[model_.machine_of[static_cast<std::size_t>(number)]])
    if (other != number) queue_.add(now + model_.thread.ring, {Kind::look, other, 0});
}

void Job::synchronise(int number, Synchronise& action, double now) {
  Rank& rank = at(number);
  rank.gave_at = now;
  rank.wait = action.wait;
  rank.synchronising = true;
  if (!meetings_.give(number, action, now)) return;
  if (action.wait == Synchronise::Wait::test) return;
  const double over = meetings_.last(number).over;
  for (int other = 0; other < size(); ++other) {
    const auto stream = static_cast<std::uint64_t>(other);
    const std::uint64_t turn = ++at(other).turn;
    const double late =
        model_.cores.sees_late(over - began_, over - at(other).gave_at, action.wait == Synchronise::Wait::spin,
                               random_.uniform(of_slice, stream, turn));
    queue_.add(over + late, {Kind::outcome, other, 0});
  }
}

void Job::issue(int number, Issue& action, double now) {
  if (!action.error.empty()) throw std::logic_error("a simulated request failed: " + action.error);
  Rank& rank = at(number);
  rank.issued = now;
  rank.busy += std::max<std::uint64_t>(bytes_of(action.requests), 1);
  rank.policy->busy(rank.busy);
  if (const auto over = traffic_.issue(number, action, now)) queue_.add(*over, {Kind::batch_over, 0, 0});
}

}  // namespace paceline::simulate
