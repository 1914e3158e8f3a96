#include "policy/cycle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "failure/error.hpp"

namespace paceline {

namespace {

// These bits are inverted, so that AND finds out whether any rank sets one.
enum StatusBit : std::uint8_t { shutting_down, uncached, invalid, status_bits };

void set(std::vector<std::uint64_t>& words, std::size_t bit) { words[bit / 64] |= std::uint64_t{1} << bit % 64; }
bool has(std::span<const std::uint64_t> words, std::size_t bit) { return words[bit / 64] >> bit % 64 & 1; }

std::size_t words_for(std::size_t bits) { return (bits + 63) / 64; }

}  // namespace

Cycle::Cycle(const PolicyOptions& options, const Seat& seat, Remedy remedy)
    : options_(options),
      remedy_(remedy),
      rank_(seat.rank),
      size_(seat.size()),
      cache_(options.cache_capacity),
      window_(options.fusion_bytes),
      joined_(static_cast<std::size_t>(size_)) {
  if (rank_ == 0) lists_.resize(static_cast<std::size_t>(size_));
}

void Cycle::submit(RequestPtr request, double) {
  if (request->name.size() + request->shape.size() > kLongestName)
    throw Failure(ErrorKind::invalid, "the request \"" + request->name.substr(0, 40) +
                                          "...\" has a name and shape of " +
                                          std::to_string(request->name.size() + request->shape.size()) +
                                          " bytes; at most " + std::to_string(kLongestName) + " are possible");
  if (rest_words_)
    held_.push_back(std::move(request));
  else
    queue_.push_back({std::move(request)});
}

void Cycle::wake(double now) {
  if (phase_ == Phase::measuring) {
    const double left = std::max(0.0, began_ + options_.cycle_seconds - now);
    return synchronise(Phase::agreeing, {static_cast<std::uint64_t>(std::llround(left * 1e9))});
  }
  if (phase_ == Phase::sleeping) return begin_cycle(now);
  if (remedy_ != Remedy::nonblocking || (phase_ != Phase::synchronising && phase_ != Phase::invalidating)) return;
  began_ = now;
  ++counters_.cycles;
  if (has_outcome_) return outcome();
  actions_.emplace_back(Sleep{now + options_.cycle_seconds});
}

void Cycle::begin_cycle(double now) {
  began_ = now;
  ++counters_.cycles;
  begin_synchronisation();
}

// Looks for the requests that were submitted since the last cycle, and for all of them if the cache has changed.
void Cycle::take_queue() {
  std::size_t known = taken_.size();
  if (taken_.empty() || looked_at_ != cache_.changes()) {
    known = 0;
    have_.assign(words_for(cache_.bits() + status_bits), 0);
    looked_at_ = cache_.changes();
  }
  std::ranges::move(queue_, std::back_inserter(taken_));
  queue_.clear();
  for (Queued& queued : std::span(taken_).subspan(known)) {
    const bool placed = queued.place != ResponseCache::kNowhere;
    switch (placed ? cache_.find(*queued.request, queued.place) : cache_.find_next(*queued.request, queued.place)) {
      case ResponseCache::Found::hit: set(have_, cache_.bit(queued.place) + status_bits); break;
      case ResponseCache::Found::invalid: invalid_.push_back(cache_.bit(queued.place)); [[fallthrough]];
      case ResponseCache::Found::miss: uncached_ = true;
    }
  }
}

void Cycle::begin_synchronisation() {
  hits_.clear();
  invalid_.clear();
  joins_before_ = joins_;
  uncached_ = wants_to_join_ || rest_words_;
  take_queue();
  if (cache_.capacity() == 0) {
    uncached_ = true;
    return conclude();
  }
  const std::size_t count = have_.size();
  std::vector<std::uint64_t> words = have_;
  if (joins_ > 0) {
    words.resize(2 * count);
    const bool joined = joined_[static_cast<std::size_t>(rank_)];
    for (std::size_t bit = status_bits; bit < cache_.bits() + status_bits; ++bit) {
      if (!has(words, bit)) set(words, count * 64 + bit);
      if (joined) set(words, bit);
    }
  }
  set(words, shutting_down);
  if (!uncached_) set(words, uncached);
  if (invalid_.empty()) set(words, invalid);
  synchronise(Phase::synchronising, std::move(words));
}

void Cycle::synchronise(Phase phase, std::vector<std::uint64_t> words) {
  phase_ = phase;
  has_outcome_ = false;
  ++counters_.synchronisations;
  given_ = words;
  Synchronise action;
  action.words = std::move(words);
  action.combine = phase == Phase::agreeing ? Synchronise::Combine::min : Synchronise::Combine::band;
  const bool tests = remedy_ == Remedy::nonblocking;
  action.wait = tests ? Synchronise::Wait::test : options_.wait;
  actions_.emplace_back(std::move(action));
  if (tests) actions_.emplace_back(Sleep{began_ + options_.cycle_seconds});
}

void Cycle::synchronised(std::span<const std::uint64_t> words, double now) {
  const bool expected =
      !has_outcome_ && (phase_ == Phase::agreeing || phase_ == Phase::synchronising || phase_ == Phase::invalidating);
  if (!expected || words.size() != given_.size())
    throw Failure(ErrorKind::invalid, "the outcome of a synchronisation has " + std::to_string(words.size()) +
                                          " words, which nobody waits for");
  outcome_.assign(words.begin(), words.end());
  has_outcome_ = true;
  if (phase_ == Phase::agreeing) {
    phase_ = Phase::sleeping;
    actions_.emplace_back(Sleep{now + static_cast<double>(words[0]) * 1e-9});
  } else if (remedy_ != Remedy::nonblocking) {
    outcome();
  }
}

void Cycle::outcome() {
  const std::size_t bits = cache_.bits();
  if (phase_ == Phase::synchronising) {
    uncached_ = !has(outcome_, uncached);
    const std::size_t wanted = words_for(bits + status_bits) * 64;
    for (std::size_t bit = 0; bit < bits; ++bit)
      if (has(outcome_, bit + status_bits) && (joins_ == 0 || !has(outcome_, wanted + bit + status_bits)))
        hits_.push_back(static_cast<std::uint32_t>(bit));
    if (has(outcome_, invalid)) return conclude();
    std::vector<std::uint64_t> words(words_for(bits), ~std::uint64_t{0});
    for (const std::uint32_t bit : invalid_) words[bit / 64] &= ~(std::uint64_t{1} << bit % 64);
    return synchronise(Phase::invalidating, std::move(words));
  }
  invalid_.clear();
  std::vector<std::uint32_t> hits;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    if (!has(outcome_, bit)) {
      invalid_.push_back(static_cast<std::uint32_t>(bit));
    } else if (std::ranges::binary_search(hits_, static_cast<std::uint32_t>(bit))) {
      // Once those are gone, the others move up.
      hits.push_back(static_cast<std::uint32_t>(bit - invalid_.size()));
    }
  }
  cache_.erase(invalid_);
  hits_ = std::move(hits);
  conclude();
}

// Requests that all ranks have are issued. Those that other ranks do not have yet wait for the next cycle, and the rest
// goes to rank 0.
void Cycle::conclude() {
  own_.assign(hits_.size(), nullptr);
  if (!hits_.empty() || uncached_) part_taken();
  if (uncached_) return gather();
  const bool anything = !hits_.empty();
  carry_out_hits();
  end_cycle(anything);
}

void Cycle::part_taken() {
  std::vector<Queued> waiting;
  for (Queued& queued : taken_) {
    if (cache_.find(*queued.request, queued.place) != ResponseCache::Found::hit) {
      unknown_.push_back(std::move(queued.request));
      ++counters_.cache_misses;
      continue;
    }
    const std::uint32_t bit = cache_.bit(queued.place);
    if (const auto hit = std::ranges::lower_bound(hits_, bit); hit == hits_.end() || *hit != bit) {
      waiting.push_back(std::move(queued));
    } else {
      own_[static_cast<std::size_t>(hit - hits_.begin())] = std::move(queued.request);
      ++counters_.cache_hits;
    }
  }
  taken_ = std::move(waiting);
}

void Cycle::carry_out_hits() {
  for (std::size_t i = 0; i < hits_.size(); ++i) {
    const ResponseCache::Entry& entry = cache_.at(hits_[i]);
    if (!own_[i]) own_[i] = entry.description;
    window_.add(std::move(own_[i]), entry.priority, {});
  }
  cache_.use(hits_);
  hits_.clear();
}

void Cycle::end_cycle(bool anything) {
  batches_.clear();
  window_.cut(batches_);
  for (Issue& batch : batches_) {
    ++counters_.issues;
    counters_.issued += batch.requests.size();
    actions_.emplace_back(std::move(batch));
  }
  if (joins_before_ == size_ && !anything) {
    actions_.emplace_back(Joined{last_joined_});
    joined_.assign(joined_.size(), false);
    joins_ = 0;
  }
  phase_ = Phase::carrying_out;
}

std::optional<Action> Cycle::next() {
  if (actions_.empty() && phase_ == Phase::carrying_out && busy_ == 0 && !at_rest_) {
    if (remedy_ == Remedy::global_sleep && counters_.cycles % options_.sleep_every == 0) {
      phase_ = Phase::measuring;
      return Sleep{};
    }
    phase_ = Phase::sleeping;
    if (remedy_ != Remedy::nonblocking || counters_.cycles == 0 || cache_.capacity() == 0)
      return Sleep{began_ + options_.cycle_seconds};
    begin_synchronisation();
  }
  if (actions_.empty()) return std::nullopt;
  Action action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

std::vector<RequestPtr> Cycle::take_back() {
  std::vector<RequestPtr> back = window_.take_back();
  let_in_held();
  for (Queued& queued : std::exchange(taken_, {})) back.push_back(std::move(queued.request));
  for (Queued& queued : std::exchange(queue_, {})) back.push_back(std::move(queued.request));
  for (auto& [name, request] : sent_) back.push_back(std::move(request));
  sent_.clear();
  pending_.clear();
  wants_to_join_ = false;
  return back;
}

void Cycle::let_in_held() {
  for (RequestPtr& request : std::exchange(held_, {})) queue_.push_back({std::move(request)});
}

std::vector<int> Cycle::missing(const Request& request) const {
  std::vector<int> ranks;
  const auto add_if = [&](auto is_missing) {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_ && is_missing(static_cast<std::size_t>(rank))) ranks.push_back(rank);
  };
  // The lists that have not come hold what the other ranks have submitted since.
  if (phase_ == Phase::gathering) {
    add_if([&](std::size_t rank) { return lists_[rank].empty(); });
    return ranks;
  }
  const auto pending = pending_.find(request.name);
  if (pending == pending_.end()) return ranks;
  add_if([&](std::size_t rank) { return pending->second.number[rank] < 0 && !joined_[rank]; });
  return ranks;
}

}  // namespace paceline
