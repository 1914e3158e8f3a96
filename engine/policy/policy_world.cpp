#include "policy/policy_world.hpp"

#include <algorithm>
#include <stdexcept>

namespace paceline {

PolicyWorld::PolicyWorld(const std::string& policy, const PolicyOptions& options, const std::vector<int>& machine_of,
                         const BoardMaker& make_board)
    : machine_of_(machine_of), ranks_(machine_of.size()) {
  for (int rank = 0; rank < size(); ++rank) {
    const int machine = machine_of[static_cast<std::size_t>(rank)];
    auto& boards = boards_[machine];
    while (boards.size() < boards_of(policy))
      boards.push_back(make_board(machine, static_cast<int>(std::ranges::count(machine_of, machine))));
    std::vector<BoardMemory*> shared;
    for (const auto& board : boards) shared.push_back(board.get());
    at(rank).policy = make_policy(policy, options, {rank, machine_of}, shared);
  }
  for (int rank = 0; rank < size(); ++rank) drain(rank);
}

void PolicyWorld::submit(int number, RequestPtr request) {
  Rank& rank = at(number);
  if (rank.under_way.contains(request->name)) return rank.waiting.push_back(std::move(request));
  rank.under_way[request->name] = request;
  rank.policy->submit(std::move(request), rank.now);
  drain(number);
}

void PolicyWorld::join(int number) {
  Rank& rank = at(number);
  rank.joining = true;
  rank.policy->join(rank.now);
  drain(number);
}

void PolicyWorld::await(int number, const std::string& name) {
  Rank& rank = at(number);
  if (const auto request = rank.under_way.find(name); request != rank.under_way.end())
    rank.policy->awaited(*request->second, rank.now);
  drain(number);
}

void PolicyWorld::set_order(int number, const std::vector<std::vector<std::string>>& buffers) {
  at(number).policy->set_order(buffers);
  drain(number);
}

void PolicyWorld::tune(int number, std::uint64_t fusion_bytes) {
  at(number).policy->tune(fusion_bytes);
  drain(number);
}

void PolicyWorld::use(const std::string& name, const std::vector<std::vector<std::string>>& buffers) {
  at(0).policy->use(name, buffers);
  drain(0);
}

bool PolicyWorld::all_issued(std::uint32_t channel, std::size_t number) const {
  return std::ranges::all_of(ranks_, [&](const Rank& rank) {
    const auto batches = rank.issued.find(channel);
    return batches != rank.issued.end() && batches->second.size() > number;
  });
}

std::vector<WorldEvent> PolicyWorld::events() const {
  std::vector<WorldEvent> found;
  for (int number = 0; number < size(); ++number) {
    const Rank& rank = this->rank(number);
    if (rank.rung) found.push_back({WorldEvent::Kind::look, number, 0});
    if (rank.sleeping) found.push_back({WorldEvent::Kind::wake, number, 0});
    if (rank.gave && outcomes_.size() > rank.outcomes) found.push_back({WorldEvent::Kind::synchronise, number, 0});
    for (const auto& [channel, batches] : rank.issued) {
      const auto done = rank.finished.find(channel);
      const std::size_t next = done == rank.finished.end() ? 0 : done->second;
      const auto limit = rank.cancelled.find(channel);
      if (next < batches.size() && (limit == rank.cancelled.end() || next < limit->second) && all_issued(channel, next))
        found.push_back({WorldEvent::Kind::finish, number, static_cast<int>(channel)});
    }
  }
  for (const auto& [pair, queue] : messages_)
    if (!queue.empty()) found.push_back({WorldEvent::Kind::deliver, pair.second, pair.first});
  return found;
}

void PolicyWorld::happen(const WorldEvent& event) {
  Rank& rank = at(event.rank);
  switch (event.kind) {
    case WorldEvent::Kind::deliver: {
      auto& queue = messages_[{event.from, event.rank}];
      const std::vector<std::byte> message = std::move(queue.front());
      queue.pop_front();
      rank.policy->receive(event.from, message, rank.now);
      break;
    }
    case WorldEvent::Kind::look:
      rank.rung = false;
      rank.policy->look(rank.now);
      break;
    case WorldEvent::Kind::wake:
      rank.sleeping = false;
      rank.now = std::max(rank.now, rank.until);
      rank.policy->wake(rank.now);
      break;
    case WorldEvent::Kind::synchronise:
      rank.gave = false;
      rank.policy->synchronised(outcomes_[rank.outcomes++], rank.now);
      break;
    case WorldEvent::Kind::finish: {
      const auto channel = static_cast<std::uint32_t>(event.from);
      const Batch& batch = rank.issued[channel][rank.finished[channel]++];
      for (const RequestPtr& request : batch.requests) settle_request(event.rank, request, batch.error);
      tell_busy(event.rank);
      break;
    }
  }
  drain(event.rank);
}

void PolicyWorld::tell_busy(int number) {
  const Rank& rank = this->rank(number);
  std::uint64_t bytes = 0;
  for (const auto& [channel, batches] : rank.issued) {
    const auto done = rank.finished.find(channel);
    const auto limit = rank.cancelled.find(channel);
    const std::size_t end = limit == rank.cancelled.end()
                                ? batches.size()
                                : std::min(batches.size(), static_cast<std::size_t>(limit->second));
    for (std::size_t i = done == rank.finished.end() ? 0 : done->second; i < end; ++i)
      for (const RequestPtr& request : batches[i].requests) bytes += std::max<std::uint64_t>(1, request->bytes);
  }
  rank.policy->busy(bytes);
}

void PolicyWorld::settle_request(int number, const RequestPtr& request, const std::string& error) {
  Rank& rank = at(number);
  const auto mine = rank.under_way.find(request->name);
  if (mine == rank.under_way.end() || mine->second != request) return;
  rank.over.emplace_back(request, error);
  rank.under_way.erase(mine);
  const auto again = std::ranges::find(rank.waiting, request->name, &Request::name);
  if (again == rank.waiting.end()) return;
  RequestPtr next = std::move(*again);
  rank.waiting.erase(again);
  rank.under_way[next->name] = next;
  rank.policy->submit(std::move(next), rank.now);
}

void PolicyWorld::drain(int number) {
  while (auto action = at(number).policy->next()) act(number, std::move(*action));
}

void PolicyWorld::act(int number, Action action) {
  Rank& rank = at(number);
  if (auto* batch = std::get_if<Issue>(&action)) {
    issue(number, std::move(*batch));
  } else if (const auto* joined = std::get_if<Joined>(&action)) {
    rank.joins.push_back(joined->last);
    rank.joining = false;
  } else if (auto* send = std::get_if<Send>(&action)) {
    messages_[{number, send->to}].push_back(std::move(send->message));
  } else if (auto* synchronise = std::get_if<Synchronise>(&action)) {
    rank.words = std::move(synchronise->words);
    rank.combine = synchronise->combine;
    rank.gave = true;
    // This rank gives its part. Once the last rank has, the outcome is there for all.
    if (!std::ranges::all_of(ranks_, [&](const Rank& one) { return one.gave && one.outcomes == outcomes_.size(); }))
      return;
    std::vector<std::uint64_t> outcome = ranks_[0].words;
    for (const Rank& other : ranks_) {
      if (other.words.size() != outcome.size() || other.combine != ranks_[0].combine)
        throw std::logic_error("ranks synchronise words of different number or kind");
      for (std::size_t i = 0; i < outcome.size(); ++i)
        outcome[i] = other.combine == Synchronise::Combine::band ? outcome[i] & other.words[i]
                                                                 : std::min(outcome[i], other.words[i]);
    }
    outcomes_.push_back(std::move(outcome));
  } else if (const auto* sleep = std::get_if<Sleep>(&action)) {
    rank.sleeping = true;
    rank.until = sleep->until;
  } else if (std::holds_alternative<Ring>(action)) {
    for (int other = 0; other < size(); ++other)
      if (other != number &&
          machine_of_[static_cast<std::size_t>(other)] == machine_of_[static_cast<std::size_t>(number)])
        at(other).rung = true;
  } else if (const auto* cancel = std::get_if<Cancel>(&action)) {
    const auto [limit, fresh] = rank.cancelled.try_emplace(cancel->channel, cancel->from);
    if (!fresh) limit->second = std::min(limit->second, cancel->from);
    if (rank.finished[cancel->channel] > limit->second)
      throw std::logic_error("rank " + std::to_string(number) + " takes back what was done");
    tell_busy(number);
  } else if (auto* warning = std::get_if<Warn>(&action)) {
    rank.said.push_back(std::move(warning->sentence));
  }
}

namespace {

std::string text_of(const std::vector<RequestPtr>& requests, const std::string& error) {
  std::string text;
  for (const RequestPtr& request : requests) text += "\"" + request->name + "\" " + describe(*request) + ", ";
  return text + error;
}

// Returns whether two ranks may issue these as the same. If they fail, ranks may have different descriptions.
bool same(const PolicyWorld::Batch& one, const Issue& other) {
  if (one.error != other.error || one.requests.size() != other.requests.size()) return false;
  for (std::size_t i = 0; i < one.requests.size(); ++i)
    if (one.requests[i]->name != other.requests[i]->name ||
        (one.error.empty() && !one.requests[i]->agrees_with(*other.requests[i])))
      return false;
  return true;
}

}  // namespace

void PolicyWorld::issue(int number, Issue issue) {
  Rank& rank = at(number);
  const std::size_t place = rank.issued[issue.channel].size();
  for (const Rank& other : ranks_) {
    const auto theirs = other.issued.find(issue.channel);
    if (theirs == other.issued.end() || theirs->second.size() <= place) continue;
    if (const Batch& batch = theirs->second[place]; &other != &rank && !same(batch, issue))
      throw std::logic_error("rank " + std::to_string(number) + " issues " + text_of(issue.requests, issue.error) +
                             " where another rank has issued " + text_of(batch.requests, batch.error));
  }
  for (const RequestPtr& request : issue.requests) {
    const auto mine = rank.under_way.find(request->name);
    if (!rank.joining && (mine == rank.under_way.end() || mine->second != request))
      throw std::logic_error("rank " + std::to_string(number) + " issues \"" + request->name +
                             "\", which it has not submitted");
  }
  if (!issue.error.empty()) {
    for (const RequestPtr& request : issue.requests) settle_request(number, request, issue.error);
    rank.issued[issue.channel].push_back({std::move(issue.requests), std::move(issue.error), issue.revocable});
    // Nothing is carried out, so it is over at once.
    auto& batches = rank.issued[issue.channel];
    if (rank.finished[issue.channel] + 1 == batches.size()) ++rank.finished[issue.channel];
    return;
  }
  rank.issued[issue.channel].push_back({std::move(issue.requests), {}, issue.revocable});
  tell_busy(number);
}

void PolicyWorld::check_over() const {
  const auto fail = [](int rank, const std::string& what) {
    throw std::logic_error("rank " + std::to_string(rank) + ": " + what);
  };
  for (int number = 0; number < size(); ++number) {
    const Rank& rank = this->rank(number);
    for (const auto& [name, request] : rank.under_way) fail(number, "\"" + name + "\" is never over");
    if (rank.joining) fail(number, "the join is never over");
    for (const auto& [channel, batches] : rank.issued) {
      const auto limit = rank.cancelled.find(channel);
      const std::size_t end = limit == rank.cancelled.end()
                                  ? batches.size()
                                  : std::min(batches.size(), static_cast<std::size_t>(limit->second));
      const auto done = rank.finished.find(channel);
      if ((done == rank.finished.end() ? 0 : done->second) < end) fail(number, "a batch is never done");
    }
  }
}

}  // namespace paceline
