#include "coordinate/cycle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "coordinate/verdict.hpp"
#include "failure/error.hpp"

namespace paceline {

namespace {

// Inverted, so that AND finds out whether anybody is concerned.
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
  queue_.push_back(std::move(request));
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

void Cycle::begin_synchronisation() {
  taken_.clear();
  taken_.swap(queue_);
  hits_.clear();
  invalid_.clear();
  own_.assign(cache_.bits(), nullptr);
  joins_before_ = joins_;
  uncached_ = wants_to_join_;
  for (const RequestPtr& request : taken_) {
    std::uint32_t bit = 0;
    switch (cache_.find(*request, bit)) {
      case ResponseCache::Found::hit: own_[bit] = request; break;
      case ResponseCache::Found::invalid: invalid_.push_back(bit); [[fallthrough]];
      case ResponseCache::Found::miss: uncached_ = true;
    }
  }
  if (cache_.capacity() == 0) {
    uncached_ = true;
    return conclude();
  }
  const std::size_t count = words_for(cache_.bits() + status_bits);
  std::vector<std::uint64_t> words(joins_ > 0 ? 2 * count : count);
  set(words, shutting_down);
  if (!uncached_) set(words, uncached);
  if (invalid_.empty()) set(words, invalid);
  const bool joined = joined_[static_cast<std::size_t>(rank_)];
  for (std::size_t bit = 0; bit < own_.size(); ++bit) {
    if (own_[bit] || joined) set(words, bit + status_bits);
    if (!own_[bit] && joins_ > 0) set(words, count * 64 + bit + status_bits);
  }
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
  std::vector<RequestPtr> own;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    if (!has(outcome_, bit)) {
      invalid_.push_back(static_cast<std::uint32_t>(bit));
      continue;
    }
    // With those gone, the others move up.
    if (std::ranges::binary_search(hits_, static_cast<std::uint32_t>(bit)))
      hits.push_back(static_cast<std::uint32_t>(own.size()));
    own.push_back(std::move(own_[bit]));
  }
  cache_.erase(invalid_);
  hits_ = std::move(hits);
  own_ = std::move(own);
  conclude();
}

// What all have is issued; what others do not have yet goes back into the queue; the rest goes to rank 0.
void Cycle::conclude() {
  std::vector<RequestPtr> rest;
  for (RequestPtr& request : taken_) {
    std::uint32_t bit = 0;
    if (cache_.find(*request, bit) != ResponseCache::Found::hit) {
      rest.push_back(std::move(request));
      ++counters_.cache_misses;
    } else if (!std::ranges::binary_search(hits_, bit)) {
      queue_.push_back(std::move(request));
    } else {
      ++counters_.cache_hits;
    }
  }
  taken_ = std::move(rest);
  if (uncached_) return gather();
  const bool anything = !hits_.empty();
  carry_out_hits();
  end_cycle(anything);
}

void Cycle::carry_out_hits() {
  for (const std::uint32_t bit : hits_) {
    const ResponseCache::Entry& entry = cache_.at(bit);
    window_.add(own_[bit] ? own_[bit] : entry.description, entry.priority, {});
  }
  cache_.use(hits_);
  hits_.clear();
}

// A list: for each request `define` with its priority; `join`; at last `cut`.
void Cycle::gather() {
  Words list;
  for (RequestPtr& request : taken_) {
    const std::size_t begin = list.size();
    list.push_back(pack({EntryKind::define, 0, 0, static_cast<std::uint32_t>(request->priority)}));
    put_request(list, *request);
    close_entry(list, begin);
    const std::string_view name = request->name;
    sent_.emplace(name, std::move(request));
  }
  taken_.clear();
  if (wants_to_join_) list.push_back(pack({EntryKind::join, 0, 1, static_cast<std::uint32_t>(rank_)}));
  wants_to_join_ = false;
  list.push_back(pack({EntryKind::cut, 0, 1, 0}));
  if (rank_ != 0) {
    phase_ = Phase::ordered;
    return send(0, list);
  }
  phase_ = Phase::gathering;
  lists_[0] = std::move(list);
  lists_missing_ = static_cast<int>(std::ranges::count_if(lists_, &Words::empty));
  if (lists_missing_ == 0) answer();
}

void Cycle::count(int from, const RequestPtr& request, std::int32_t priority) {
  Pending& pending = pending_[request->name];
  if (pending.number.empty()) pending.number.assign(static_cast<std::size_t>(size_), -1);
  int& number = pending.number[static_cast<std::size_t>(from)];
  if (number >= 0) return;
  pending.priority = pending.handed_in == 0 ? priority : std::max(pending.priority, priority);
  ++pending.handed_in;
  const auto known =
      std::ranges::find_if(pending.descriptions, [&](const auto& d) { return d->agrees_with(*request); });
  number = static_cast<int>(known - pending.descriptions.begin());
  if (known == pending.descriptions.end()) pending.descriptions.push_back(request);
  ready_.push_back(request->name);
}

void Cycle::answer() {
  order_.clear();
  ready_.clear();
  for (int from = 0; from < size_; ++from) {
    std::span<const std::uint64_t> words = lists_[static_cast<std::size_t>(from)];
    while (const auto entry = take_entry(words)) {
      const EntryHead head = head_of((*entry)[0]);
      if (head.kind == EntryKind::define) {
        auto rest = entry->subspan(1);
        auto request = std::make_shared<const Request>(read_request(rest));
        const auto own = from == 0 ? sent_.find(request->name) : sent_.end();
        count(from, own == sent_.end() ? request : own->second, static_cast<std::int32_t>(head.number));
      } else if (head.kind == EntryKind::join && !joined_[static_cast<std::size_t>(from)]) {
        order_.push_back((*entry)[0]);
        joined_[static_cast<std::size_t>(from)] = true;
        ++joins_;
        last_joined_ = from;
        for (const auto& [name, pending] : pending_) ready_.push_back(name);
      }
    }
    lists_[static_cast<std::size_t>(from)].clear();
  }
  for (const std::string& name : ready_) put_ready(name);
  order_.push_back(pack({EntryKind::cut, 0, 1, 0}));
  for (int to = 1; to < size_; ++to) send(to, order_);
  const Words order = std::move(order_);
  obey(order);
}

// Writes the verdict on a request, if all ranks have handed it in or have joined.
void Cycle::put_ready(const std::string& name) {
  const auto found = pending_.find(name);
  if (found == pending_.end()) return;
  const Pending& pending = found->second;
  int ready = 0;
  Report all;
  std::vector<std::pair<int, std::uint32_t>> sides;
  for (int rank = 0; rank < size_; ++rank) {
    const int number = pending.number[static_cast<std::size_t>(rank)];
    const bool joined = joined_[static_cast<std::size_t>(rank)];
    if (number >= 0) sides.emplace_back(rank, static_cast<std::uint32_t>(number));
    if (number < 0 && joined && all.absent < 0) all.absent = rank;
    ready += number >= 0 || joined;
  }
  if (ready < size_) return;
  SlotState state;
  state.definition = pending.descriptions[0];
  state.others =
      std::make_unique<std::vector<RequestPtr>>(pending.descriptions.begin() + 1, pending.descriptions.end());
  Words verdict;
  put_verdict(verdict, state, all, sides);
  const std::size_t begin = order_.size();
  const EntryKind kind = head_of(verdict[0]).kind;
  order_.push_back(pack({kind, 0, 0, static_cast<std::uint32_t>(pending.priority)}));
  put_request(order_, *pending.descriptions[0]);
  if (kind == EntryKind::fail) order_.insert(order_.end(), verdict.begin() + 3, verdict.end());
  close_entry(order_, begin);
  pending_.erase(found);
}

RequestPtr Cycle::take_own(std::string_view name) {
  const auto own = sent_.find(name);
  if (own == sent_.end()) return nullptr;
  RequestPtr request = std::move(own->second);
  sent_.erase(own);
  return request;
}

void Cycle::obey(std::span<const std::uint64_t> words) {
  const bool anything = !hits_.empty() || words.size() > 1;
  carry_out_hits();
  while (const auto entry = take_entry(words)) obey_entry(*entry);
  end_cycle(anything || cache_.capacity() > 0);
}

void Cycle::obey_entry(std::span<const std::uint64_t> entry) {
  const EntryHead head = head_of(entry[0]);
  if (head.kind == EntryKind::join) {
    if (rank_ == 0) return;
    joined_[head.number] = true;
    ++joins_;
    last_joined_ = static_cast<int>(head.number);
    return;
  }
  if (head.kind == EntryKind::cut) return;
  const auto priority = static_cast<std::int32_t>(head.number);
  auto rest = entry.subspan(1);
  auto request = std::make_shared<const Request>(read_request(rest));
  RequestPtr own = take_own(request->name);
  if (head.kind == EntryKind::fail) return window_.add(own ? own : request, priority, read_text(rest));
  if (!own) own = request;
  if (own->what.collective == Collective::all_reduce) cache_.put(own, priority);
  window_.add(std::move(own), priority, {});
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

void Cycle::send(int to, const Words& words) {
  Send message{to, std::vector<std::byte>(words.size() * 8)};
  std::memcpy(message.message.data(), words.data(), message.message.size());
  actions_.emplace_back(std::move(message));
  ++counters_.messages;
}

void Cycle::receive(int from, std::span<const std::byte> message, double) {
  Words words(message.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), message.data(), words.size() * 8);
  bool sound = message.size() % 8 == 0 && !words.empty() && from != rank_ && from >= 0 && from < size_;
  if (rank_ == 0)
    sound = sound && lists_[static_cast<std::size_t>(from)].empty();
  else
    sound = sound && from == 0 && phase_ == Phase::ordered;
  std::span<const std::uint64_t> rest = words;
  while (sound && !rest.empty()) {
    const auto entry = take_entry(rest);
    if (!entry) {
      sound = false;
      break;
    }
    const EntryHead head = head_of((*entry)[0]);
    auto inside = entry->subspan(1);
    switch (head.kind) {
      case EntryKind::cut: sound = inside.empty() && rest.empty(); break;
      case EntryKind::join:
        sound = inside.empty() && head.number < static_cast<std::uint32_t>(size_) &&
                (rank_ != 0 || head.number == static_cast<std::uint32_t>(from));
        break;
      case EntryKind::define: sound = rank_ == 0 && take_request(inside) && inside.empty(); break;
      case EntryKind::issue: sound = rank_ != 0 && take_request(inside) && inside.empty(); break;
      case EntryKind::fail: sound = rank_ != 0 && take_request(inside) && take_text(inside) && inside.empty(); break;
      default: sound = false;
    }
  }
  if (!sound)
    throw Failure(ErrorKind::invalid, "rank " + std::to_string(from) + " sent " + std::to_string(message.size()) +
                                          " bytes to rank " + std::to_string(rank_) +
                                          " that are no message of a polling policy");
  if (rank_ != 0) return obey(words);
  lists_[static_cast<std::size_t>(from)] = std::move(words);
  if (phase_ == Phase::gathering && --lists_missing_ == 0) answer();
}

std::optional<Action> Cycle::next() {
  if (actions_.empty() && phase_ == Phase::carrying_out && busy_ == 0) {
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

std::vector<int> Cycle::missing(const Request& request) const {
  std::vector<int> ranks;
  const auto pending = pending_.find(request.name);
  if (pending == pending_.end()) return ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (const auto at = static_cast<std::size_t>(rank); pending->second.number[at] < 0 && !joined_[at])
      ranks.push_back(rank);
  return ranks;
}

}  // namespace paceline
