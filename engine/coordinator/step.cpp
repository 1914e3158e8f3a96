// What the loop does with a coordinator, one step after the other.
#include <algorithm>
#include <cstring>
#include <new>

#include "coordinator/coordinator.hpp"
#include "progress/times.hpp"

namespace paceline {

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
  for (const auto& stream : streams_)
    if (stream->group->error) trouble_ = stream->group->error;
  return false;
}

bool Coordinator::advance(Now now) {
  for (const auto& stream : streams_)
    if (stream->group->error) throw Failure(stream->group->error);
  bool moved = hear(now);
  moved |= end_synchronise(now);
  if (now >= policy_wakes_) {
    if (sleeps_ && policy_->polls()) {
      ++totals_.sleeps;
      totals_.oversleep_ns += ns_between(policy_wakes_, now);
    }
    policy_wakes_ = Now::max();
    policy_->wake(seconds_of(now));
    moved = true;
  }
  policy_->look(seconds_of(now));
  moved |= act(now);
  CpuMeter* const meter = loop_.meter();
  const bool apart = busy_ > 0 && meter != nullptr && meter->work() == CpuMeter::Work::coordination;
  if (apart) meter->turn_to(CpuMeter::Work::other);
  while (carry()) {
    moved = true;
    if (!act(now)) break;
  }
  end_join();
  if (std::exchange(rings_, false)) ring();
  if (const Departure* departure = deserter()) go_without(*departure);
  if (now >= asks_) ask(now);
  wake = std::min(policy_wakes_, asks_);
  const bool synchronises = synchronising_ != nullptr && wait_ != Synchronise::Wait::test;
  const bool polls = policy_->polls();
  rest = synchronises && wait_ == Synchronise::Wait::spin     ? Rest::spin
         : synchronises && wait_ == Synchronise::Wait::yield  ? Rest::yield
         : polls && policy_wakes_ != Now::max() && busy_ == 0 ? Rest::sleep
                                                              : Rest::adaptive;
  carry_weight(busy_ > 0 && rest != Rest::spin && rest != Rest::yield);
  if (apart && !carries_) meter->turn_to(CpuMeter::Work::coordination);
  idle_ = pending_.empty() && busy_ == 0 && synchronising_ == nullptr && (!polls || policy_wakes_ == Now::max());
  return moved;
}

bool Coordinator::has_work() const {
  return std::ranges::any_of(streams_, [](const auto& stream) {
    if (stream->queue.empty()) return false;
    const BatchWork* work = stream->queue.front().work.get();
    if (work == nullptr) return !stops(*stream);
    return work->has_work() ||
           std::ranges::any_of(work->moving(), [](const Handle& handle) { return handle->has_work(); });
  });
}

void Coordinator::group_failed(const Error& error) {
  for (const auto& stream : streams_) loop_.fail_group(*stream->group, error);
  fail(error);
}

void Coordinator::let_go(const Error& error) {
  failing_ = true;
  while (!pending_.empty()) settle(*pending_.back(), error);
  for (auto& [text, name] : names_) name.waiting.clear();
  for (const auto& stream : streams_) stream->queue.clear();
  synchronising_.reset();
  busy_ = 0;
  carry_weight(false);
}

// Tells the loop whether it moves data: see CpuMeter.
void Coordinator::carry_weight(bool carries) {
  if (carries != carries_) loop_.count_carrying(carries);
  carries_ = carries;
}

bool Coordinator::hear(Now now) {
  if (control_->notes.empty()) return false;
  for (Note& note : std::exchange(control_->notes, {})) {
    const auto from = static_cast<std::size_t>(note.from);
    auto& partial = partial_[from];
    if (note.tag == kClosing) {
      hear_of_departure(note);
      continue;
    }
    if (note.tag == kAsk || note.tag == kHave) {
      answer(note);
      continue;
    }
    if (note.tag == kAwait) {
      hear_of_wait(note);
      continue;
    }
    partial.insert(partial.end(), note.message.begin(), note.message.end());
    if (note.tag == kMoreFollows) continue;
    policy_->receive(note.from, partial, seconds_of(now));
    partial.clear();
  }
  return true;
}

void Coordinator::tell(int to, std::int32_t tag, std::span<const std::byte> message) {
  const Member& member = control_->members[static_cast<std::size_t>(to)];
  if (!loop_.reaches(member)) return;
  Header header;
  header.frame = Frame::note;
  header.channel = control_->channel;
  do {
    const auto part = message.first(std::min(message.size(), kNoteBytes));
    message = message.subspan(part.size());
    header.length = part.size();
    header.tag = message.empty() ? tag : kMoreFollows;
    member.link->control(header, {reinterpret_cast<const char*>(part.data()), part.size()});
  } while (!message.empty());
}

bool Coordinator::end_synchronise(Now now) {
  if (synchronising_ == nullptr || synchronising_->state() != State::done) return false;
  if (wait_ == Synchronise::Wait::test && now < policy_wakes_) return false;
  if (wait_ != Synchronise::Wait::test) totals_.spin_ns += ns_between(synchronised_since_, now);
  synchronising_.reset();
  policy_->synchronised(words_, seconds_of(now));
  return true;
}

bool Coordinator::act(Now now) {
  bool moved = false;
  while (auto action = policy_->next()) {
    moved = true;
    std::visit([&](auto& one) { carry_out(one, now); }, *action);
  }
  return moved;
}

void Coordinator::carry_out(Synchronise& action, Now now) {
  words_ = std::move(action.words);
  wait_ = action.wait;
  synchronised_since_ = now;
  const Op op = action.combine == Synchronise::Combine::band ? Op::band : Op::min;
  synchronising_ = all_reduce(*engine_, *control_, reinterpret_cast<std::byte*>(words_.data()), words_.size(),
                              DType::int64, op, 1, Mode::inside);
}

void Coordinator::carry_out(Sleep& action, Now now) {
  const auto since = std::chrono::duration<double>(action.until);
  policy_wakes_ = Now(std::chrono::duration_cast<Clock::duration>(since));
  sleeps_ = policy_wakes_ > now;  // if there is no time left to sleep, no sleep can be too long
}

void Coordinator::carry_out(paceline::Send& action, Now now) {
  if (action.to == seat_.rank) {
    policy_->receive(action.to, action.message, seconds_of(now));
  } else {
    tell(action.to, kWhole, action.message);
  }
}

// A rank that hands in does its part before it wakes others: they find that part there, and do not go to sleep again.
void Coordinator::carry_out(Ring&, Now) {
  if (submitting_) {
    rings_ = true;
  } else {
    ring();
  }
}

void Coordinator::ring() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Member& member : control_->members)
    if (member.link != nullptr && member.link->arena() != nullptr) member.link->wake();
}

void Coordinator::carry_out(Warn& action, Now) {
  warnings_.push_back(std::move(action.sentence));
  loop_.report(warnings_id_);
}

void Coordinator::carry_out(Joined& action, Now) {
  if (join_) join_->last_to_join = action.last;
}

// A rank whose join is over may leave. Before that it gives the others what they still wait for.
void Coordinator::end_join() {
  if (!join_ || joins() || busy_ > 0) return;
  const auto joined = join_;
  ++ended_;
  settle(*joined);
}

}  // namespace paceline
