#include "policy/graph.hpp"

#include <algorithm>

#include "calibration/named.hpp"
#include "failure/error.hpp"
#include "policy/fuse.hpp"

namespace paceline {

namespace {

std::uint64_t digest_of(const std::vector<std::vector<std::string>>& buffers) {
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::uint8_t byte) { digest = (digest ^ byte) * 0x100000001b3; };
  for (const auto& buffer : buffers) {
    for (const std::string& name : buffer) {
      for (const char letter : name) add(static_cast<std::uint8_t>(letter));
      add(0);
    }
    add(1);
  }
  return digest;
}

// This policy goes by the board only in steps that are not as foreseen, and the board then holds nothing back.
PolicyOptions at_once(PolicyOptions options) {
  options.cycle_seconds = 0;
  return options;
}

}  // namespace

Graph::Graph(const PolicyOptions& options, const Seat& seat, BoardMemory& memory)
    : Board(at_once(options), seat, memory), fusion_bytes_(options.fusion_bytes) {}

Graph::Place* Graph::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &places_[found->second];
}

void Graph::check_order(const std::vector<std::vector<std::string>>& buffers) {
  std::vector<std::string_view> names;
  for (const auto& buffer : buffers) {
    if (buffer.empty()) throw Failure(ErrorKind::invalid, "an order of requests has a buffer without any");
    names.insert(names.end(), buffer.begin(), buffer.end());
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw Failure(ErrorKind::invalid, "an order of requests names \"" + std::string(*twice) + "\" twice");
}

void Graph::set_order(const std::vector<std::vector<std::string>>& buffers) {
  check_order(buffers);
  const std::uint64_t digest = digest_of(buffers);
  waiting_order_ = buffers;
  starting_ = true;
  order({{pack({EntryKind::start, order_taken, 2, static_cast<std::uint32_t>(rank())}), digest}});
  settle();
}

void Graph::submit(RequestPtr request, double now) {
  came_ = now;
  if (starting_) return held_.push_back(std::move(request));
  Place* place = find(request->name);
  if (place == nullptr || run_ == 0 || place->next >= limit_) return Board::submit(std::move(request), now);
  fill(*place, std::move(request));
  settle();
}

void Graph::fill(Place& place, RequestPtr request) {
  const bool as_known = place.known->agrees_with(*request);
  place.slot = std::move(request);
  ++filled_;
  ++full_[place.buffer];
  if (as_known) issue_full();
  if (place.slot && (!as_known || !awaited_.empty())) deviate();
}

void Graph::issue_full() {
  for (; !deviating_ && next_ < limit_; ++next_) {
    const std::size_t buffer = next_ % buffers_.size();
    if (full_[buffer] < buffers_[buffer].size()) break;
    together_.clear();
    for (const std::uint32_t number : buffers_[buffer]) {
      Place& place = places_[number];
      std::erase(awaited_, place.slot.get());
      std::erase(wanted_, place.slot.get());
      together_.push_back(place.slot);
      place.known = place.slot;
      place.issued = std::move(place.slot);
      place.slot = nullptr;
      place.next += buffers_.size();
    }
    filled_ -= full_[buffer];
    full_[buffer] = 0;
    std::vector<Issue> batches;
    fuse(together_, fusion_bytes_, [&](std::vector<RequestPtr> batch) {
      Issue& issue = batches.emplace_back();
      issue.requests = std::move(batch);
      issue.channel = run_;
      issue.revocable = true;
    });
    give(batches);
  }
  tell_drained();
}

bool Graph::holds(const Request& request) {
  const Place* place = find(request.name);
  return (place && place->slot.get() == &request) || has(request) ||
         std::ranges::find(held_, &request, &RequestPtr::get) != held_.end();
}

void Graph::awaited(const Request& request, double) {
  if (!holds(request)) return;
  awaited_.push_back(&request);
  if (filled_ > 0) deviate();
  settle();
}

void Graph::wanted(const Request& request, double) {
  if (holds(request)) wanted_.push_back(&request);
}

void Graph::wake(double now) {
  sleeps_ = false;
  if (!wanted_.empty() && filled_ > 0 && now >= came_ + calibration::kGraphPatience) deviate();
  Board::wake(now);
}

std::optional<Action> Graph::next() {
  if (!wanted_.empty() && filled_ > 0 && !deviating_ && !std::exchange(sleeps_, true))
    return Sleep{came_ + calibration::kGraphPatience};
  return Board::next();
}

void Graph::join(double now) {
  wants_to_join_ = deviating_ || (run_ > 0 && next_ < limit_);
  if (!wants_to_join_) return Board::join(now);
  deviate();
  settle();
}

// Ranks cannot rest while a run is going on: it is ended first, in the same way as by a step that deviates.
void Graph::rest(std::vector<std::uint64_t> words) {
  rest_words_ = std::move(words);
  retire();
  settle();
}

void Graph::retire() {
  if (!rest_words_ || starting_) return;
  if (running_ || !drained_) return deviate();
  const Words words = std::move(*rest_words_);
  rest_words_.reset();
  Board::rest(words);
}

// A new run has begun before this entry was read.
void Graph::could_not_rest(const Words& words) {
  if (rank() == 0) rest(words);
}

void Graph::all_have_joined() {
  forget_run();
  retire();
}

void Graph::came_to_rest() {
  forget_run();
  awaited_.clear();
  wanted_.clear();
  sleeps_ = false;
  wants_to_join_ = deviating_ = false;
}

void Graph::ordered(std::span<const std::uint64_t> entry) {
  const EntryHead head = head_of(entry[0]);
  if (head.kind == EntryKind::deviate) {
    if (entry[1] >> 32 != rests()) return;
    if (entry[1] == run_word() && entry[2] < limit_)
      deviated(entry[2], static_cast<int>(head.number), head.flags == kOnPurpose);
    if (head.number != static_cast<std::uint32_t>(rank())) return;
    deviating_ = false;
    issue_full();
    retire();
    if (!std::exchange(wants_to_join_, false)) return;
    join(0);
  } else if (head.kind == EntryKind::start) {
    if (tally_.take(head.flags, entry[1], size())) started(head.flags, entry[1], tally_.differed);
  } else if (head.kind == EntryKind::started) {
    started(head.flags & 0x7f, entry[1], (head.flags & 0x80) != 0);
  }
}

void Graph::started(std::uint8_t what, std::uint64_t number, bool differ) {
  if (what == run_drained) {
    drained_ = drained_ || number == run_;
    return retire();
  }
  starting_ = false;
  if (differ) {
    give(Warn{"the ranks gave different orders of requests; requests are negotiated"});
  } else {
    take_order();
  }
  waiting_order_.clear();
  for (RequestPtr& request : std::exchange(held_, {})) submit(std::move(request), 0);
  retire();
}

void Graph::take_order() {
  by_name_.clear();
  places_.clear();
  buffers_.clear();
  for (const auto& names : waiting_order_) {
    auto& buffer = buffers_.emplace_back();
    for (const std::string& name : names) {
      const auto number = static_cast<std::uint32_t>(places_.size());
      places_.emplace_back().buffer = static_cast<std::uint32_t>(buffers_.size() - 1);
      by_name_[name] = number;
      buffer.push_back(number);
    }
  }
  full_.assign(buffers_.size(), 0);
  filled_ = 0;
  running_ = false;
  forget_run();
}

void Graph::round_over(const RequestPtr& request, bool failed) {
  std::erase(awaited_, request.get());
  std::erase(wanted_, request.get());
  Place* place = find(request->name);
  if (place == nullptr) return;
  ++place->negotiated;
  negotiated_any_ = true;
  place->known = failed ? nullptr : request;
}

}  // namespace paceline
