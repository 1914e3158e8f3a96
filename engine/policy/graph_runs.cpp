// The runs of the policy `graph`: what begins a run, what ends it, and what is taken back then.
#include <algorithm>
#include <utility>

#include "policy/fuse.hpp"
#include "policy/graph.hpp"

namespace paceline {

// Says that this rank has issued nothing from `next_` on, and never will in this run.
void Graph::deviate() {
  if (deviating_ || next_ >= limit_) return;
  deviating_ = true;
  const std::uint8_t why = rest_words_ ? kOnPurpose : 0;
  order({{pack({EntryKind::deviate, why, 3, static_cast<std::uint32_t>(rank())}), run_word(), next_}});
}

// At this place of the log all ranks take back what they have issued in this run from number `from` on.
void Graph::deviated(std::uint64_t from, int by, bool on_purpose) {
  if (running_) {
    if (!on_purpose) ++counters_.deviations;
    if (!said_ && !on_purpose)
      give(Warn{"rank " + std::to_string(by) +
                " did not submit its requests as the order of them says; until a whole step does, they are negotiated" +
                " (this is said once)"});
    said_ = said_ || !on_purpose;
    running_ = false;
    negotiated_any_ = false;
    for (Place& place : places_) place.negotiated = 0;
  }
  limit_ = from;
  next_ = std::min(next_, limit_);
  give(Cancel{run_, first_issue(from)});
  std::vector<RequestPtr> back;
  for (Place& place : places_) {
    if (place.issued && place.next - buffers_.size() >= limit_) {
      place.next -= buffers_.size();
      back.push_back(std::exchange(place.issued, nullptr));
    }
    if (place.slot && place.next >= limit_) {
      --filled_;
      --full_[place.buffer];
      back.push_back(std::exchange(place.slot, nullptr));
    }
  }
  for (RequestPtr& request : back) Board::submit(std::move(request), 0);
  tell_drained();
}

void Graph::tell_drained() {
  if (told_drained_ || running_ || next_ < limit_) return;
  told_drained_ = true;
  order({{pack({EntryKind::start, run_drained, 2, static_cast<std::uint32_t>(rank())}), run_}});
}

// Nothing is under way on any rank, so steps are counted from here.
void Graph::forget_run() {
  next_ = limit_ = 0;
  drained_ = told_drained_ = true;
  negotiated_any_ = false;
  for (Place& place : places_) place.negotiated = 0;
}

// Returns whether all names were issued equally often since the last run began.
bool Graph::complete_steps() const {
  const auto times = [&](const Place& place) {
    return limit_ / buffers_.size() + (place.buffer < limit_ % buffers_.size()) + place.negotiated;
  };
  return std::ranges::all_of(places_,
                             [&](const Place& place) { return place.known && times(place) == times(places_.front()); });
}

void Graph::was_cut() {
  if (!running_ && drained_ && negotiated_any_ && !anybody_joins() && complete_steps()) begin_run();
}

void Graph::begin_run() {
  ++run_;
  running_ = true;
  drained_ = told_drained_ = false;
  next_ = 0;
  limit_ = kNever;
  issues_before_.assign(1, 0);
  std::vector<std::pair<Place*, RequestPtr>> back;
  for (const auto& buffer : buffers_) {
    together_.clear();
    for (const std::uint32_t number : buffer) {
      Place& place = places_[number];
      place.next = place.buffer;
      place.issued = nullptr;
      together_.push_back(place.known);
      if (RequestPtr mine = withdraw(place.known->name)) back.emplace_back(&place, std::move(mine));
    }
    std::uint64_t issues = issues_before_.back();
    fuse(together_, fusion_bytes_, [&](const auto&) { ++issues; });
    issues_before_.push_back(issues);
  }
  for (auto& [place, request] : back) fill(*place, std::move(request));
  if (joins()) deviate();
}

std::uint64_t Graph::first_issue(std::uint64_t buffer) const {
  return buffer / buffers_.size() * issues_before_.back() + issues_before_[buffer % buffers_.size()];
}

}  // namespace paceline
