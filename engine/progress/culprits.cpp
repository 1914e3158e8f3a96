#include "progress/culprits.hpp"

#include <algorithm>
#include <set>

namespace paceline {
namespace {

// From one round of questions to the next, unless the deadline is near.
constexpr Clock::duration kPatience = std::chrono::seconds(1);
// A rank whose last answer is older than that is silent.
constexpr Clock::duration kSilence = std::chrono::seconds(2);
// An answer that took longer may have been here for long before this rank read it.
constexpr Clock::duration kPrompt = std::chrono::seconds(1);
// A rank whose program is elsewhere counts as one that waits there once it has done so for that long, and for this part
// of the time for which others wait for it: else it goes on, and may wait now and then as every program does.
constexpr Clock::duration kSettled = std::chrono::milliseconds(250);
constexpr int kSettledPart = 8;
constexpr std::size_t kMostWaits = 64;  // of which a rank tells others

Clock::duration patience(const Operation& operation) {
  return std::min<Clock::duration>(kPatience, (operation.deadline - operation.started) / 4);
}

std::vector<std::string> names_of(const Group& group, const std::vector<int>& ranks) {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int rank : ranks) names.push_back(group.members[static_cast<std::size_t>(rank)].description);
  return names;
}

}  // namespace

std::vector<OwnWait> Culprits::own(Clock::time_point now) const {
  std::vector<OwnWait> waits;
  for (const auto& operation : operations_) {
    if (operation->over()) continue;
    for (const auto& [waiting, more] : operation->waiting()) {
      const bool called = waiting->waiter != 0;
      for (const Operation* part : waiting->parts()) {
        const CallId call = call_of(*part);
        const auto same = std::ranges::find(waits, call, &OwnWait::call);
        if (same == waits.end() || call.kind != CallId::Kind::together)
          waits.push_back({call, called, now - part->started, names_of(*part->group, part->missing())});
        else
          same->called |= called;
      }
      if (waits.size() >= kMostWaits) break;
    }
  }
  // What does not fit into a report is the least telling.
  std::ranges::stable_partition(waits, &OwnWait::called);
  return waits;
}

WaitGraph Culprits::graph(Clock::time_point since, const WaitReport& own, Clock::duration settled) const {
  return {[this, since, &own](const std::string& who) { return who == description_ ? &own : heard(who, since); },
          settled};
}

const WaitReport* Culprits::heard(const std::string& who, Clock::time_point since) const {
  const auto found = known_.find(who);
  return found == known_.end() || found->second.report.at < since ? nullptr : &found->second.report;
}

Blame Culprits::of(const Operation& operation) const {
  const auto now = Clock::now();
  const WaitReport report{own(now), now};
  const auto waited = now - operation.started;
  const auto since = std::max(now - kSilence, operation.started);  // what was said before may be of other waits
  const auto parts = operation.parts();
  std::vector<OwnWait> waits;
  waits.reserve(parts.size());
  for (const Operation* part : parts) {
    auto missing = names_of(*part->group, part->missing());
    // Before a rank has answered, those are to blame that have not begun.
    if (waited < kSilence &&
        std::ranges::none_of(missing, [&](const auto& who) { return heard(who, since) != nullptr; }))
      if (auto absent = names_of(*part->group, part->absent()); !absent.empty()) missing = std::move(absent);
    waits.push_back({call_of(*part), true, waited, std::move(missing)});
  }
  const auto settled = std::max(std::min(kSettled, patience(operation)), waited / kSettledPart);
  WaitGraph found = graph(since, report, settled);
  found.begin(description_, waits, now);
  Blame blame = found.blame();
  const std::vector<std::string> idle = idlers(operation, since);
  const auto is_doubtful = [&](const Blame::Root& root) {  // it has begun, and may only answer late
    return heard(root.who, since) == nullptr && std::ranges::find(idle, root.who) == idle.end();
  };
  if (!idle.empty() && std::erase_if(blame.roots, is_doubtful) > 0 && blame.roots.empty())
    for (const std::string& who : idle) blame.roots.push_back({who, {}});
  // Who was not missing in the last round has just given up itself, and others have been missing for longer.
  const auto is_new = [&](const Blame::Root& root) { return asked_ > operation.started && !was_missing(root.who); };
  if (!std::ranges::all_of(blame.roots, is_new)) std::erase_if(blame.roots, is_new);
  if (!blame.roots.empty() || !blame.circle.empty()) return blame;
  // All take part, and it moves on.
  std::set<std::string> names;
  for (const OwnWait& wait : waits) names.insert(wait.missing.begin(), wait.missing.end());
  blame.roots.reserve(names.size());
  for (const std::string& who : names) blame.roots.push_back({who, {}});
  return blame;
}

bool Culprits::was_missing(const std::string& who) const {
  const auto found = known_.find(who);
  return found != known_.end() && (found->second.asked || found->second.round == round_);
}

// Returns the ranks that have not begun the operation, and wait for nobody as far as is known.
std::vector<std::string> Culprits::idlers(const Operation& operation, Clock::time_point since) const {
  std::vector<std::string> found;
  for (const Operation* part : operation.parts())
    for (std::string& who : names_of(*part->group, part->absent())) {
      const WaitReport* report = heard(who, since);
      if (report == nullptr || std::ranges::none_of(report->waits, &OwnWait::called)) found.push_back(std::move(who));
    }
  return found;
}

std::vector<std::string> Culprits::named(const Operation& operation) const {
  const Blame blame = of(operation);
  std::vector<std::string> names;
  names.reserve(blame.roots.size() + blame.circle.size());
  for (const Blame::Root& root : blame.roots) names.push_back(root.who);
  for (const std::string& who : blame.circle)
    if (who != description_) names.push_back(who);
  return names;
}

Clock::time_point Culprits::due(const Operation& operation) const {
  if (operation.deadline == Clock::time_point::max()) return Clock::time_point::max();
  return std::max(operation.started, asked_) + patience(operation);
}

void Culprits::ask(Clock::time_point now) {
  ++round_;
  asked_ = now;
  const WaitReport report{own(now), now};
  WaitGraph found = graph(now - kSilence, report, Clock::duration::zero());
  found.begin(description_, report.waits, now);
  for (const std::string& who : found.ranks()) ask(who, now);
}

void Culprits::ask(const std::string& who, Clock::time_point now) {
  if (who == description_) return;
  Known& known = known_[who];
  if (known.handle < 0) known.handle = peers_.find(who);
  if (known.handle < 0 || peers_[known.handle].lost || known.asked || known.round == round_) return;
  known.round = round_;
  known.asked = true;
  known.asked_at = now;
  Header header;
  header.frame = Frame::inquiry;
  peers_[known.handle].link->control(header);
}

void Culprits::hear_question(int peer) {
  if (!peers_.has(peer) || peers_[peer].lost) return;
  const std::string answer = WaitReport{own(Clock::now()), {}}.encoded();
  Header header;
  header.frame = Frame::waits;
  header.length = answer.size();
  peers_[peer].link->control(header, answer);
}

void Culprits::hear_answer(int peer, std::span<const std::byte> payload) {
  const auto found = known_.find(peers_[peer].description);
  if (found == known_.end() || !found->second.asked) return;
  Known& known = found->second;
  const auto now = Clock::now();
  known.asked = false;
  if (operations_.empty()) return;
  if (known.asked_at < now - kPrompt) {
    known.round = 0;
    return ask(found->first, now);
  }
  auto report = WaitReport::decoded(payload, now);
  if (!report) return;
  known.report = std::move(*report);
  for (const OwnWait& wait : known.report.waits)
    for (const std::string& who : wait.missing) ask(who, now);
}

void Culprits::forgive(Clock::duration pause) {
  for (auto& [who, known] : known_) {
    known.asked_at += pause;
    known.report.at += pause;
  }
}

}  // namespace paceline
