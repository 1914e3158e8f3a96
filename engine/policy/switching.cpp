#include "policy/switching.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "failure/error.hpp"
#include "policy/board.hpp"
#include "policy/cycle.hpp"
#include "policy/entry.hpp"
#include "policy/graph.hpp"

namespace paceline {

namespace {

constexpr std::size_t kPrefix = sizeof(std::uint64_t);

PolicyOptions yielding(PolicyOptions options) {
  options.wait = Synchronise::Wait::yield;
  return options;
}

// The words are the policy's number and then, for each buffer, the number of its names and the names.
Words written(std::size_t policy, const std::vector<std::vector<std::string>>& buffers) {
  Words words{policy};
  for (const auto& buffer : buffers) {
    words.push_back(buffer.size());
    for (const std::string& name : buffer) put_text(words, name);
  }
  return words;
}

std::vector<std::vector<std::string>> buffers_of(std::span<const std::uint64_t> words) {
  std::vector<std::vector<std::string>> buffers;
  while (!words.empty()) {
    auto& buffer = buffers.emplace_back();
    auto left = words[0];
    words = words.subspan(1);
    for (; left > 0; --left) buffer.push_back(read_text(words));
  }
  return buffers;
}

}  // namespace

Switching::Switching(const PolicyOptions& options, const Seat& seat, BoardMemory& board, BoardMemory& graph)
    : rank_(seat.rank),
      size_(seat.size()),
      policies_{std::make_unique<Board>(options, seat, board), std::make_unique<Graph>(options, seat, graph),
                std::make_unique<Cycle>(yielding(options), seat, Cycle::Remedy::none)} {}

void Switching::use(const std::string& name, const std::vector<std::vector<std::string>>& buffers) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) throw Failure(ErrorKind::invalid, "no policy to change to: " + name);
  if (rank_ != 0)
    throw Failure(ErrorKind::invalid,
                  "only rank 0 can change the policy, and tells the others; this is rank " + std::to_string(rank_));
  if (name != "graph" && !buffers.empty())
    throw Failure(ErrorKind::invalid, "only the policy graph takes an order of requests, not " + name);
  Graph::check_order(buffers);
  const auto number = static_cast<std::size_t>(found - kNames.begin());
  if (asked_ || number == active_) return;
  asked_ = true;
  refused_ = false;
  active().rest(written(number, buffers));
}

void Switching::submit(RequestPtr request, double now) {
  now_ = now;
  active().submit(std::move(request), now);
}

void Switching::join(double now) {
  now_ = now;
  joining_ = true;
  active().join(now);
}

void Switching::receive(int from, std::span<const std::byte> message, double now) {
  now_ = now;
  std::uint64_t theirs = 0;
  if (message.size() < kPrefix || from < 0 || from >= size_ || from == rank_)
    throw Failure(ErrorKind::invalid, "rank " + std::to_string(from) + " sent " + std::to_string(message.size()) +
                                          " bytes to rank " + std::to_string(rank_) +
                                          " that are no message of a policy");
  std::memcpy(&theirs, message.data(), kPrefix);
  const auto rest = message.subspan(kPrefix);
  if (theirs > switches_) {
    early_[theirs].emplace_back(from, std::vector<std::byte>(rest.begin(), rest.end()));
  } else if (theirs == switches_) {
    active().receive(from, rest, now);
  }
}

void Switching::synchronised(std::span<const std::uint64_t> words, double now) {
  now_ = now;
  active().synchronised(words, now);
}

// The policy that asked to be woken up may not be in use any more.
void Switching::wake(double now) {
  now_ = now;
  if (std::exchange(sleeps_, false)) active().wake(now);
}

void Switching::look(double now) {
  now_ = now;
  active().look(now);
}

void Switching::awaited(const Request& request, double now) {
  now_ = now;
  attended_[&request] = Attention::awaited;
  attend(request, Attention::awaited);
}

void Switching::wanted(const Request& request, double now) {
  now_ = now;
  attended_.try_emplace(&request, Attention::wanted);
  attend(request, Attention::wanted);
}

void Switching::attend(const Request& request, Attention how) {
  if (how == Attention::awaited) {
    active().awaited(request, now_);
  } else {
    active().wanted(request, now_);
  }
}

void Switching::busy(std::uint64_t bytes) {
  busy_ = bytes;
  active().busy(bytes);
}

std::optional<Action> Switching::next() {
  for (;;) {
    auto action = active().next();
    if (!action) {
      const auto rest = active().rested();
      if (!rest) return std::nullopt;
      asked_ = false;
      refused_ = rest->refused;
      if (!rest->refused) switch_to(rest->words);
      continue;
    }
    if (const auto* issue = std::get_if<Issue>(&*action); issue != nullptr && !attended_.empty()) {
      for (const RequestPtr& request : issue->requests) attended_.erase(request.get());
    } else if (auto* send = std::get_if<Send>(&*action)) {
      send->message.insert(send->message.begin(), kPrefix, std::byte{});
      std::memcpy(send->message.data(), &switches_, kPrefix);
    } else if (std::holds_alternative<Sleep>(*action)) {
      sleeps_ = true;
    } else if (std::holds_alternative<Joined>(*action)) {
      joining_ = false;
    }
    return action;
  }
}

void Switching::switch_to(std::span<const std::uint64_t> words) {
  if (words.empty() || words[0] >= policies_.size())
    throw Failure(ErrorKind::invalid, "the policy that rank 0 changes to is none of those that there are");
  const std::vector<RequestPtr> back = active().take_back();
  active_ = static_cast<std::size_t>(words[0]);
  ++switches_;
  sleeps_ = false;
  Policy& now_in_use = active();
  now_in_use.resume();
  now_in_use.busy(busy_);
  if (words.size() > 1) now_in_use.set_order(buffers_of(words.subspan(1)));
  for (const RequestPtr& request : back) now_in_use.submit(request, now_);
  if (joining_) now_in_use.join(now_);
  // Requests of `before` that are not in `back` are over.
  for (const auto before = std::exchange(attended_, {}); const RequestPtr& request : back)
    if (const auto found = before.find(request.get()); found != before.end())
      attend(*request, attended_[found->first] = found->second);
  if (const auto early = early_.extract(switches_))
    for (const auto& [from, message] : early.mapped()) now_in_use.receive(from, message, now_);
  now_in_use.look(now_);
}

Counters Switching::counters() const {
  Counters sum;
  for (const auto& policy : policies_) sum += policy->counters();
  return sum;
}

}  // namespace paceline
