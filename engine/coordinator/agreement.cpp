#include "coordinator/agreement.hpp"

#include <utility>

#include "progress/times.hpp"

namespace paceline {
namespace {

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};

}  // namespace

bool Agreement::look(Clock::time_point now) {
  bool moved = end_synchronise(now);
  if (now >= wakes_) {
    if (sleeps_ && policy_->polls()) {
      ++totals_.sleeps;
      totals_.oversleep_ns += ns_between(wakes_, now);
    }
    wakes_ = Clock::time_point::max();
    policy_->wake(seconds_of(now));
    moved = true;
  }
  policy_->look(seconds_of(now));
  return moved;
}

bool Agreement::end_synchronise(Clock::time_point now) {
  if (synchronising_ == nullptr || synchronising_->state() != Operation::State::done) return false;
  if (wait_ == Synchronise::Wait::test && now < wakes_) return false;
  if (wait_ != Synchronise::Wait::test) totals_.spin_ns += ns_between(synchronised_since_, now);
  synchronising_.reset();
  policy_->synchronised(words_, seconds_of(now));
  return true;
}

std::optional<Agreement::Decision> Agreement::next(Clock::time_point now, bool hands_in) {
  while (auto action = policy_->next()) {
    std::optional<Decision> decision;
    std::visit(Overloaded{
                   [&](Issue& one) { decision = std::move(one); },
                   [&](const Joined& one) { decision = one; },
                   [&](const Cancel& one) { decision = one; },
                   [&](paceline::Send& one) { carry_out(one, now); },
                   [&](Synchronise& one) { carry_out(one, now); },
                   [&](const Sleep& one) { carry_out(one, now); },
                   [&](const Ring&) { hands_in ? void(ring_due_ = true) : ring(); },
                   [&](Warn& one) { warnings_.add(std::move(one.sentence)); },
               },
               *action);
    if (decision) return decision;
  }
  return std::nullopt;
}

void Agreement::carry_out(Synchronise& action, Clock::time_point now) {
  words_ = std::move(action.words);
  wait_ = action.wait;
  synchronised_since_ = now;
  const Op op = action.combine == Synchronise::Combine::band ? Op::band : Op::min;
  const CollectiveCall call{.collective = Collective::all_reduce,
                            .target = reinterpret_cast<std::byte*>(words_.data()),
                            .count = words_.size(),
                            .dtype = DType::int64,
                            .op = op};
  synchronising_ = start(engine_, *control_, call, Mode::inside);
}

void Agreement::carry_out(const Sleep& action, Clock::time_point now) {
  const auto since = std::chrono::duration<double>(action.until);
  wakes_ = Clock::time_point(std::chrono::duration_cast<Clock::duration>(since));
  sleeps_ = wakes_ > now;  // if there is no time left to sleep, no sleep can be too long
}

void Agreement::carry_out(paceline::Send& action, Clock::time_point now) {
  if (action.to == control_->rank) {
    policy_->receive(action.to, action.message, seconds_of(now));
  } else {
    correspondence_.tell(action.to, Correspondence::policy, action.message);
  }
}

void Agreement::ring_if_due() {
  if (std::exchange(ring_due_, false)) ring();
}

void Agreement::ring() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Member& member : control_->members)
    if (member.link != nullptr && member.link->arena() != nullptr) member.link->wake();
}

Rest Agreement::rest(bool carries) const {
  if (synchronising_ != nullptr && wait_ == Synchronise::Wait::spin) return Rest::spin;
  if (synchronising_ != nullptr && wait_ == Synchronise::Wait::yield) return Rest::yield;
  const bool sleeps = policy_->polls() && wakes_ != Clock::time_point::max() && !carries;
  return sleeps ? Rest::sleep : Rest::adaptive;
}

void Agreement::give_up(const Error& error) {
  if (synchronising_) std::exchange(synchronising_, nullptr)->fail(error);
  wakes_ = Clock::time_point::max();
}

}  // namespace paceline
