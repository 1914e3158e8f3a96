// Requests of a polling policy that ranks do not have in their caches: ranks tell rank 0 of them, which answers with
// those that are ready everywhere.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "failure/error.hpp"
#include "policy/cycle.hpp"
#include "policy/verdict.hpp"

namespace paceline {

// A list holds a `define` with its priority for each request, a `join` if the rank joins, and a `cut` at the end.
void Cycle::gather() {
  Words list;
  for (RequestPtr& own : std::exchange(unknown_, {})) {
    const Request& request = *own;
    const std::size_t begin = list.size();
    list.push_back(pack({EntryKind::define, 0, 0, static_cast<std::uint32_t>(request.priority)}));
    put_request(list, request);
    close_entry(list, begin);
    sent_.emplace(request.name, std::move(own));
  }
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
      case EntryKind::rest: sound = rank_ != 0; break;
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
  put_rest();
  order_.push_back(pack({EntryKind::cut, 0, 1, 0}));
  for (int to = 1; to < size_; ++to) send(to, order_);
  const Words order = std::move(order_);
  obey(order);
}

void Cycle::count(int from, const RequestPtr& request, std::int32_t priority) {
  Pending& pending = pending_[request->name];
  if (pending.number.empty()) pending.number.assign(static_cast<std::size_t>(size_), -1);
  int& number = pending.number[static_cast<std::size_t>(from)];
  if (number >= 0) return;
  pending.priority = pending.submitted == 0 ? priority : std::max(pending.priority, priority);
  ++pending.submitted;
  const auto known =
      std::ranges::find_if(pending.descriptions, [&](const auto& d) { return d->agrees_with(*request); });
  number = static_cast<int>(known - pending.descriptions.begin());
  if (known == pending.descriptions.end()) pending.descriptions.push_back(request);
  ready_.push_back(request->name);
}

// Writes the verdict on a request, if all ranks have submitted it or have joined.
void Cycle::put_ready(const std::string& name) {
  const auto found = pending_.find(name);
  if (found == pending_.end()) return;
  const Pending& pending = found->second;
  if (pending.submitted + joins_ < size_) return;  // at once: it is asked for every rank that submits something
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
  order_.push_back(pack({kind, head_of(verdict[0]).flags, 0, static_cast<std::uint32_t>(pending.priority)}));
  put_request(order_, *pending.descriptions[0]);
  if (kind == EntryKind::fail) order_.insert(order_.end(), verdict.begin() + 3, verdict.end());
  close_entry(order_, begin);
  pending_.erase(found);
}

// After this cycle ranks rest, if no rank has joined.
void Cycle::put_rest() {
  if (!rest_words_) return;
  if (joins_ > 0) {
    rested_ = Rest{true};
    let_in_held();
  } else {
    for (const Words& entry : rest_entries(*rest_words_, kLongestEntry, 0))
      order_.insert(order_.end(), entry.begin(), entry.end());
  }
  rest_words_.reset();
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
  if (head.kind == EntryKind::rest) {
    if (!take_rest(resting_, entry)) return;
    at_rest_ = true;
    rested_ = Rest{false, std::exchange(resting_, {})};
    return;
  }
  if (head.kind == EntryKind::cut) return;
  const auto priority = static_cast<std::int32_t>(head.number);
  auto rest = entry.subspan(1);
  auto request = std::make_shared<const Request>(read_request(rest));
  RequestPtr own = take_own(request->name);
  if (head.kind == EntryKind::fail) {
    const std::uint64_t bundle = request->bundle.id;
    RequestPtr failed = own ? own : request;
    if (head.flags == kDisputedBundle)
      return window_.add_disputed(std::move(failed), priority, read_text(rest), {&bundle, 1});
    return window_.add(std::move(failed), priority, read_text(rest));
  }
  if (!own) own = request;
  if (own->what.collective == Collective::all_reduce) cache_.put(own, priority);
  window_.add(std::move(own), priority, {});
}

RequestPtr Cycle::take_own(std::string_view name) {
  const auto own = sent_.find(name);
  if (own == sent_.end()) return nullptr;
  RequestPtr request = std::move(own->second);
  sent_.erase(own);
  return request;
}

void Cycle::send(int to, const Words& words) {
  Send message{to, std::vector<std::byte>(words.size() * 8)};
  std::memcpy(message.message.data(), words.data(), message.message.size());
  actions_.emplace_back(std::move(message));
  ++counters_.messages;
}

}  // namespace paceline
