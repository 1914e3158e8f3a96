// Which ranks a coordinator's requests wait for. Warnings and deadlines name them, and a request that needs a rank that
// has left must fail.
#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "coordinator/coordinator.hpp"
#include "progress/times.hpp"

namespace paceline {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr std::size_t kQuestions = 8;

// What a rank says that waits itself: an answer to this question, when it had seen the end of so much.
struct Await {
  std::uint64_t asked;
  std::uint64_t ended;
};

std::string_view text_of(std::span<const std::byte> message, std::size_t from) {
  return {reinterpret_cast<const char*>(message.data()) + from, message.size() - from};
}

}  // namespace

const Operation& Coordinator::urgent() const {
  const Operation* first = this;
  for (const PendingRequest* pending : pending_)
    if (pending->deadline < first->deadline) first = pending;
  return *first;
}

std::vector<PendingRequest*> Coordinator::oldest_first() const {
  auto ordered = pending_;
  std::ranges::sort(ordered, {}, [](const PendingRequest* pending) { return pending->id; });
  return ordered;
}

std::vector<Operation::Waiting> Coordinator::waiting() const {
  std::vector<Waiting> found;
  std::map<std::vector<int>, std::size_t> seen;
  for (const PendingRequest* pending : oldest_first()) {
    const auto [at, fresh] = seen.emplace(absent(*pending), found.size());
    if (fresh) {
      found.push_back({pending, 0});
    } else {
      ++found[at->second].more;
    }
  }
  return found;
}

std::vector<int> Coordinator::missing(const PendingRequest& pending) const {
  std::vector<int> ranks;
  if (!pending.issued) {
    ranks = known_missing(pending);
    if (ranks.empty())
      for (std::size_t rank = 0; rank < pending.handed_in.size(); ++rank)
        if (!pending.handed_in[rank]) ranks.push_back(static_cast<int>(rank));
  }
  if (!ranks.empty()) return ranks;
  // All ranks have handed it in: it waits for what is under way before it, or for its own data.
  const auto add_all = [&](const Operation& operation) {
    for (const int rank : operation.missing())
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (const auto& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front().work)
      for (const Handle& handle : stream->queue.front().work->moving())
        if (!handle->over()) add_all(*handle);
  if (synchronising_ && !synchronising_->over()) add_all(*synchronising_);
  return ranks;
}

// The ranks that the policy knows to be missing. It does not tell which ranks have joined.
std::vector<int> Coordinator::known_missing(const PendingRequest& pending) const {
  return pending.join ? std::vector<int>() : policy_->missing(*pending.request);
}

// What this rank knows of the missing ranks may be older than what they wait for themselves.
std::vector<int> Coordinator::absent(const PendingRequest& pending) const {
  const auto since = Clock::now() - kSilence;
  auto ranks = missing(pending);
  return ranks.empty() || pending.started > since ? ranks : blamed(std::move(ranks), silent(since));
}

// The ranks that do not say in any group that they wait.
std::vector<int> Coordinator::silent(Now since) const {
  std::vector<int> ranks = control_->silent(since);
  for (const auto& stream : streams_) {
    const auto there = stream->group->silent(since);
    std::erase_if(ranks, [&](int rank) { return std::ranges::find(there, rank) == there.end(); });
  }
  return ranks;
}

// A policy may not know which ranks have yet to hand in a request, or to join (which has no name). So this rank asks
// the others after a while. A rank that has nothing under way in this coordinator does not even hear that, and has not
// handed in the request. Ranks on other machines that are known to be missing are asked, too, so that something was
// sent to them: see Engine::tell_line. Where a caller waits, ranks of this machine are asked as well, as they may wait
// for this rank: see hear_of_wait.
void Coordinator::ask(Now now) {
  asks_ = pending_.empty() ? Now::max() : now + patience();
  std::size_t left = kQuestions;
  bool first_known = true;
  const int here = seat_.machine_of[static_cast<std::size_t>(seat_.rank)];
  for (PendingRequest* pending : oldest_first()) {
    if (pending->issued || now < pending->started + patience()) continue;
    const std::string_view name = pending->join ? std::string_view() : pending->request->name;
    std::vector<std::byte> question(sizeof pending->id + name.size());
    std::memcpy(question.data(), &pending->id, sizeof pending->id);
    std::ranges::copy(std::as_bytes(std::span(name)), question.begin() + sizeof pending->id);
    if (const auto known = known_missing(*pending); !known.empty()) {
      const bool first = std::exchange(first_known, false);
      if (question.size() > kNoteBytes) continue;
      for (const int rank : known) {
        const bool far = seat_.machine_of[static_cast<std::size_t>(rank)] != here;
        if ((first && far) || pending->waiter != 0) tell(rank, kAsk, question);
      }
      continue;
    }
    if (left-- == 0) return;
    if (pending->handed_in.empty()) {
      pending->handed_in.resize(static_cast<std::size_t>(control_->size()));
      pending->handed_in[static_cast<std::size_t>(seat_.rank)] = true;
    }
    if (question.size() > kNoteBytes) continue;
    for (int rank = 0; rank < control_->size(); ++rank)
      if (!pending->handed_in[static_cast<std::size_t>(rank)]) tell(rank, kAsk, question);
  }
}

void Coordinator::answer(const Note& note) {
  std::uint64_t asked = 0;
  if (note.message.size() < sizeof asked) return;
  std::memcpy(&asked, note.message.data(), sizeof asked);
  if (note.tag == kHave) {
    for (PendingRequest* pending : pending_)
      if (pending->id == asked && !pending->handed_in.empty())
        pending->handed_in[static_cast<std::size_t>(note.from)] = true;
    return;
  }
  if (joins() || has(text_of(note.message, sizeof asked)))
    return tell(note.from, kHave, std::span(note.message).first(sizeof asked));
  const auto waits = std::ranges::find_if(pending_, [](const PendingRequest* pending) {
    return !pending->issued && !pending->join && pending->waiter != 0;
  });
  if (waits == pending_.end()) return;
  const Await await{asked, ended_};
  const std::string_view name = (*waits)->request->name;
  std::vector<std::byte> message(sizeof await + name.size());
  if (message.size() > kNoteBytes) return;
  std::memcpy(message.data(), &await, sizeof await);
  std::ranges::copy(std::as_bytes(std::span(name)), message.begin() + sizeof await);
  tell(note.from, kAwait, message);
}

bool Coordinator::has(std::string_view name) const {
  const auto found = names_.find(name);
  return found != names_.end() && found->second.current;
}

// A caller of this rank waits for what another rank has not handed in, and a caller there for what this rank has not:
// both wait in vain, unless they have other threads. It has to be so twice, patience() apart, when both ranks have seen
// the end of the same batches: so it is nothing that one of them has yet to hear of.
void Coordinator::hear_of_wait(const Note& note) {
  Await await{};
  if (note.message.size() < sizeof await) return;
  std::memcpy(&await, note.message.data(), sizeof await);
  const std::string_view name = text_of(note.message, sizeof await);
  const auto found = std::ranges::find_if(pending_, [&](const PendingRequest* one) { return one->id == await.asked; });
  if (found == pending_.end()) return;
  PendingRequest& pending = **found;
  if (pending.issued || pending.join || pending.waiter == 0 || await.ended != ended_ || joins() || has(name)) {
    pending.in_vain.clear();
  } else if (pending.in_vain != name) {
    pending.in_vain = name;
  } else if (!std::exchange(pending.told_in_vain, true)) {
    warnings_.push_back(pending.description() + " waits for " + control_->name_of(note.from) +
                        ", which has not handed it in and waits for \"" + pending.in_vain + "\", which this rank, " +
                        control_->name_of(seat_.rank) + ", has not handed in: neither ends unless another thread does");
    loop_.report(warnings_id_);
  }
}

Clock::duration Coordinator::patience() const {
  return std::min<Clock::duration>(kPatience, on_clock(control_->timeout) / 4);
}

// A rank that leaves says what it has seen the end of, and why it leaves if it does so because another one has left.
void Coordinator::tell_of_departure() {
  const std::string why = state() == State::failed ? error().message : "";
  std::vector<std::byte> message(std::min(sizeof ended_ + why.size(), kNoteBytes));
  std::memcpy(message.data(), &ended_, sizeof ended_);
  std::memcpy(message.data() + sizeof ended_, why.data(), message.size() - sizeof ended_);
  for (int rank = 0; rank < control_->size(); ++rank)
    if (rank != seat_.rank) tell(rank, kClosing, message);
}

void Coordinator::hear_of_departure(const Note& note) {
  Departure departure;
  if (note.message.size() < sizeof departure.ended) return;
  std::memcpy(&departure.ended, note.message.data(), sizeof departure.ended);
  const auto why = std::span(note.message).subspan(sizeof departure.ended);
  departure.why.assign(reinterpret_cast<const char*>(why.data()), why.size());
  if (why.empty()) departure.why = control_->name_of(note.from) + " has closed its coordinator, or has left";
  departures_.push_back(std::move(departure));
}

// Returns a rank that has left, once this one has seen the end of everything that the other had: everything else would
// need it.
const Coordinator::Departure* Coordinator::deserter() const {
  const auto found = std::ranges::find_if(departures_, [&](const auto& left) { return left.ended <= ended_; });
  return found == departures_.end() ? nullptr : &*found;
}

// Ranks will not agree on anything any more. The others find that out by themselves: they may still be about to end
// what this rank has ended, unless the rank that left gave up something in the middle.
void Coordinator::go_without(const Departure& departure) {
  const Error error{ErrorKind::aborted, departure.why};
  if (busy_ > 0) throw Failure(error);
  if (synchronising_) std::exchange(synchronising_, nullptr)->fail(error);
  policy_wakes_ = asks_ = Now::max();
  if (!pending_.empty()) fail(error);
}

}  // namespace paceline
