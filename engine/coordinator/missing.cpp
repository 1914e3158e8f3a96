// Whom a coordinator's requests wait for: for warnings, for deadlines, and because a rank that is gone may be needed.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "coordinator/coordinator.hpp"
#include "progress/times.hpp"

namespace paceline {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(1);
constexpr std::size_t kQuestions = 8;

}  // namespace

const Operation& Coordinator::urgent() const {
  const Operation* first = this;
  for (const Requested* requested : pending_)
    if (requested->deadline < first->deadline) first = requested;
  return *first;
}

std::vector<Requested*> Coordinator::oldest_first() const {
  auto pending = pending_;
  std::ranges::sort(pending, {}, [](const Requested* requested) { return requested->id; });
  return pending;
}

std::vector<Operation::Waiting> Coordinator::waiting() const {
  std::vector<Waiting> found;
  std::map<std::vector<int>, std::size_t> seen;
  for (const Requested* requested : oldest_first()) {
    const auto [at, fresh] = seen.emplace(absent(*requested), found.size());
    if (fresh) {
      found.push_back({requested, 0});
    } else {
      ++found[at->second].more;
    }
  }
  return found;
}

std::vector<int> Coordinator::missing(const Requested& requested) const {
  std::vector<int> ranks;
  if (!requested.issued && !requested.join) {
    ranks = policy_->missing(*requested.request);
    if (ranks.empty())
      for (std::size_t rank = 0; rank < requested.handed_in.size(); ++rank)
        if (!requested.handed_in[rank]) ranks.push_back(static_cast<int>(rank));
  }
  if (!ranks.empty()) return ranks;
  // All are ready: it waits for what is under way before it, or for its own data.
  const auto add_all = [&](const Operation& operation) {
    for (const int rank : operation.missing())
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (const auto& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front().carriage)
      for (const Handle& handle : stream->queue.front().carriage->moving())
        if (!handle->over()) add_all(*handle);
  if (synchronising_ && !synchronising_->over()) add_all(*synchronising_);
  return ranks;
}

// What is known of them may be of before something got stuck, for which they wait, too.
std::vector<int> Coordinator::absent(const Requested& requested) const {
  const auto since = Clock::now() - kSilence;
  auto ranks = missing(requested);
  return ranks.empty() || requested.started > since ? ranks : Engine::blamed(std::move(ranks), silent(since));
}

// Those who do not say in any group that they wait.
std::vector<int> Coordinator::silent(Now since) const {
  std::vector<int> ranks = control_->silent(since);
  for (const auto& stream : streams_) {
    const auto there = stream->group->silent(since);
    std::erase_if(ranks, [&](int rank) { return std::ranges::find(there, rank) == there.end(); });
  }
  return ranks;
}

// A policy may not know who has yet to hand in a request. After a while the others are asked; who has nothing to do
// with this coordinator just now does not even hear that, and has not handed it in. Whom it knows on another machine is
// asked, too: so there is something that was sent to it, see Engine::tell_line.
void Coordinator::ask(Now now) {
  asks_ = pending_.empty() ? Now::max() : now + patience();
  std::size_t left = kQuestions;
  bool first_known = true;
  const int here = seat_.machine_of[static_cast<std::size_t>(seat_.rank)];
  for (Requested* requested : oldest_first()) {
    if (requested->issued || requested->join || now < requested->started + patience()) continue;
    const std::string& name = requested->request->name;
    std::vector<std::byte> question(sizeof requested->id + name.size());
    std::memcpy(question.data(), &requested->id, sizeof requested->id);
    std::memcpy(question.data() + sizeof requested->id, name.data(), name.size());
    if (const auto known = policy_->missing(*requested->request); !known.empty()) {
      if (question.size() > kNoteBytes || !std::exchange(first_known, false)) continue;
      for (const int rank : known)
        if (seat_.machine_of[static_cast<std::size_t>(rank)] != here) tell(rank, kAsk, question);
      continue;
    }
    if (left-- == 0) return;
    if (requested->handed_in.empty()) {
      requested->handed_in.resize(static_cast<std::size_t>(control_->size()));
      requested->handed_in[static_cast<std::size_t>(seat_.rank)] = true;
    }
    if (question.size() > kNoteBytes) continue;
    for (int rank = 0; rank < control_->size(); ++rank)
      if (!requested->handed_in[static_cast<std::size_t>(rank)]) tell(rank, kAsk, question);
  }
}

void Coordinator::answer(const Note& note) {
  std::uint64_t asked = 0;
  if (note.message.size() < sizeof asked) return;
  std::memcpy(&asked, note.message.data(), sizeof asked);
  if (note.tag == kHave) {
    for (Requested* requested : pending_)
      if (requested->id == asked && !requested->handed_in.empty())
        requested->handed_in[static_cast<std::size_t>(note.from)] = true;
    return;
  }
  const std::string_view name(reinterpret_cast<const char*>(note.message.data()) + sizeof asked,
                              note.message.size() - sizeof asked);
  const auto found = names_.find(name);
  if (join_ || (found != names_.end() && found->second.current))
    tell(note.from, kHave, std::span(note.message).first(sizeof asked));
}

Clock::duration Coordinator::patience() const {
  return std::min<Clock::duration>(kPatience, on_clock(control_->timeout) / 4);
}

// A rank that is gone may have had its part in everything that is still to come: it is missed only after a while.
// Returns when to look again.
Coordinator::Now Coordinator::miss(Now now) {
  Now again = Now::max();
  if (engine_->absent_peers_) {
    for (int rank = 0; rank < control_->size(); ++rank) {
      const Member& member = control_->members[static_cast<std::size_t>(rank)];
      const bool lost = member.peer >= 0 && engine_->peers_[static_cast<std::size_t>(member.peer)]->lost;
      if (lost && departed_[static_cast<std::size_t>(rank)] == Now::max())
        departed_[static_cast<std::size_t>(rank)] = now;
    }
  }
  for (int rank = 0; rank < control_->size(); ++rank) {
    const auto since = departed_[static_cast<std::size_t>(rank)];
    if (since == Now::max() || (pending_.empty() && synchronising_ == nullptr)) continue;
    if (now < since + kGrace) {
      again = std::min(again, since + kGrace);
      continue;
    }
    const auto waits_for = [rank](const std::vector<int>& ranks) {
      return std::ranges::find(ranks, rank) != ranks.end();
    };
    const bool needed =
        (synchronising_ && !synchronising_->over() && waits_for(synchronising_->missing())) ||
        std::ranges::any_of(pending_, [&](const Requested* pending) { return waits_for(missing(*pending)); });
    if (needed) throw Failure(ErrorKind::aborted, control_->name_of(rank) + " has closed its coordinator, or has left");
  }
  return again;
}

}  // namespace paceline
