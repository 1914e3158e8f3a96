// What the loop does with a coordinator: one step after the other.
#include <algorithm>
#include <cstring>
#include <new>
#include <ranges>

#include "progress/coordinator.hpp"

namespace paceline {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(1);
constexpr std::size_t kQuestions = 8;
// Who hands in does so much of the packing; the rest is for whoever waits.
constexpr std::uint64_t kBySubmitter = std::uint64_t{32} << 10;
constexpr std::size_t kNoteBytes = 960;  // fits into a record of any link

std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

double seconds_of(Clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return to > from ? static_cast<std::uint64_t>(ns_of(to) - ns_of(from)) : 0;
}

}  // namespace

bool Coordinator::step() {
  try {
    return advance(Clock::now());
  } catch (const Failure& failure) {
    trouble_ = {failure.kind == ErrorKind::invalid ? ErrorKind::aborted : failure.kind, failure.what()};
  } catch (const std::bad_alloc&) {
    trouble_ = {ErrorKind::aborted, control_->name_of(seat_.rank) + " has no memory left in its arena"};
  }
  // What the group says is nearer to the cause.
  for (const auto& stream : streams_)
    if (stream->group->error) trouble_ = stream->group->error;
  return false;
}

bool Coordinator::advance(Now now) {
  for (const auto& stream : streams_)
    if (stream->group->error) throw Failure(stream->group->error);
  bool moved = hear(now);
  moved |= end_synchronise(now);
  if (now >= policy_wakes_) {
    if (sleeps_ && polls_) {
      ++totals_.sleeps;
      totals_.oversleep_ns += ns_between(policy_wakes_, now);
    }
    policy_wakes_ = Now::max();
    policy_->wake(seconds_of(now));
    moved = true;
  }
  policy_->look(seconds_of(now));
  moved |= act(now);
  CpuMeter* const meter = engine_->meter_;
  const bool apart = busy_ > 0 && meter != nullptr && meter->work() == CpuMeter::Work::coordination;
  if (apart) meter->turn_to(CpuMeter::Work::other);
  while (carry()) {
    moved = true;
    if (!act(now)) break;
  }
  if (std::exchange(rings_, false)) ring();
  if (now >= asks_) ask(now);
  wake = std::min({policy_wakes_, asks_, miss(now)});
  const bool synchronises = synchronising_ != nullptr && wait_ != Synchronise::Wait::test;
  rest = synchronises && wait_ == Synchronise::Wait::spin      ? Rest::spin
         : synchronises && wait_ == Synchronise::Wait::yield   ? Rest::yield
         : polls_ && policy_wakes_ != Now::max() && busy_ == 0 ? Rest::sleep
                                                               : Rest::well;
  carry_weight(busy_ > 0 && rest != Rest::spin && rest != Rest::yield);
  if (apart && !carries_) meter->turn_to(CpuMeter::Work::coordination);
  idle_ = pending_.empty() && busy_ == 0 && synchronising_ == nullptr && (!polls_ || policy_wakes_ == Now::max());
  return moved;
}

bool Coordinator::has_work() const {
  return std::ranges::any_of(streams_, [](const auto& stream) {
    if (stream->queue.empty()) return false;
    const Carriage* carriage = stream->queue.front().carriage.get();
    return carriage == nullptr || carriage->has_work() ||
           std::ranges::any_of(carriage->moving(), [](const Handle& handle) { return handle->has_work(); });
  });
}

void Coordinator::group_failed(const Error& error) {
  for (const auto& stream : streams_) engine_->fail_group(*stream->group, error);
  fail(error);
}

void Coordinator::let_go(const Error& error) {
  failing_ = true;
  while (!pending_.empty()) settle(*pending_.back(), error);
  for (auto& [text, name] : names_) name.waiting.clear();
  for (const auto& stream : streams_) stream->queue.clear();
  synchronising_.reset();
  busy_ = 0;
  carry_weight(false);
}

// Tells the loop whether it moves data: see CpuMeter.
void Coordinator::carry_weight(bool carries) {
  if (carries != carries_) engine_->carrying_ += carries ? 1 : -1;
  carries_ = carries;
}

// --- between coordinators

bool Coordinator::hear(Now now) {
  if (control_->notes.empty()) return false;
  for (Note& note : std::exchange(control_->notes, {})) {
    const auto from = static_cast<std::size_t>(note.from);
    auto& partial = partial_[from];
    if (note.tag == kClosing) {
      if (departed_[from] == Now::max()) departed_[from] = now;
      continue;
    }
    if (note.tag == kAsk || note.tag == kHave) {
      answer(note);
      continue;
    }
    partial.insert(partial.end(), note.message.begin(), note.message.end());
    if (note.tag == kMoreFollows) continue;
    policy_->receive(note.from, partial, seconds_of(now));
    partial.clear();
  }
  return true;
}

void Coordinator::tell(int to, std::int32_t tag, std::span<const std::byte> message) {
  Link* link = control_->members[static_cast<std::size_t>(to)].link;
  if (link == nullptr || engine_->peers_[static_cast<std::size_t>(link->peer())]->lost) return;
  Header header;
  header.frame = Frame::note;
  header.channel = control_->channel;
  do {
    const auto part = message.first(std::min(message.size(), kNoteBytes));
    message = message.subspan(part.size());
    header.length = part.size();
    header.tag = message.empty() ? tag : kMoreFollows;
    link->control(header, {reinterpret_cast<const char*>(part.data()), part.size()});
  } while (!message.empty());
}

// A policy may not know who has yet to hand in a request. After a while the others are asked; who has nothing to do
// with this coordinator just now does not even hear that, and has not handed it in.
void Coordinator::ask(Now now) {
  asks_ = pending_.empty() ? Now::max() : now + patience();
  std::size_t left = kQuestions;
  for (Requested* requested : pending_) {
    if (requested->issued || requested->join || now < requested->started + patience()) continue;
    if (!policy_->missing(*requested->request).empty()) continue;
    if (left-- == 0) return;
    if (requested->handed_in.empty()) {
      requested->handed_in.resize(static_cast<std::size_t>(control_->size()));
      requested->handed_in[static_cast<std::size_t>(seat_.rank)] = true;
    }
    const std::string& name = requested->request->name;
    std::vector<std::byte> question(sizeof requested->id + name.size());
    std::memcpy(question.data(), &requested->id, sizeof requested->id);
    std::memcpy(question.data() + sizeof requested->id, name.data(), name.size());
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
  const auto quarter = std::chrono::duration_cast<Clock::duration>(control_->timeout) / 4;
  return std::min<Clock::duration>(kPatience, quarter);
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

// --- what the policy wants done

bool Coordinator::end_synchronise(Now now) {
  if (synchronising_ == nullptr || synchronising_->state() != State::done) return false;
  if (wait_ == Synchronise::Wait::test && now < policy_wakes_) return false;
  if (wait_ != Synchronise::Wait::test) totals_.spin_ns += ns_between(synchronised_since_, now);
  synchronising_.reset();
  policy_->synchronised(words_, seconds_of(now));
  return true;
}

bool Coordinator::act(Now now) {
  bool moved = false;
  while (auto action = policy_->next()) {
    moved = true;
    std::visit([&](auto& one) { carry_out(one, now); }, *action);
  }
  return moved;
}

void Coordinator::carry_out(Synchronise& action, Now now) {
  words_ = std::move(action.words);
  wait_ = action.wait;
  synchronised_since_ = now;
  const Op op = action.combine == Synchronise::Combine::band ? Op::band : Op::min;
  synchronising_ = all_reduce(*engine_, *control_, reinterpret_cast<std::byte*>(words_.data()), words_.size(),
                              DType::int64, op, 1, Mode::inside);
}

void Coordinator::carry_out(Sleep& action, Now now) {
  const auto since = std::chrono::duration<double>(action.until);
  policy_wakes_ = Now(std::chrono::duration_cast<Clock::duration>(since));
  sleeps_ = policy_wakes_ > now;  // where there is no time left to sleep it cannot be too long
}

void Coordinator::carry_out(paceline::Send& action, Now now) {
  if (action.to == seat_.rank) {
    policy_->receive(action.to, action.message, seconds_of(now));
  } else {
    tell(action.to, kWhole, action.message);
  }
}

// Who hands in begins with its part before others wake up: they find it there, and do not sleep again until it is.
void Coordinator::carry_out(Ring&, Now) {
  if (submitting_) {
    rings_ = true;
  } else {
    ring();
  }
}

void Coordinator::ring() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Member& member : control_->members)
    if (member.link != nullptr && member.link->arena() != nullptr) member.link->wake();
}

void Coordinator::carry_out(Say& action, Now) {
  sayings_.push_back(std::move(action.sentence));
  engine_->finished_.push_back(sayings_id_);
  engine_->wake_server();
}

void Coordinator::carry_out(Joined& action, Now) {
  if (!join_) return;
  const auto joined = join_;
  joined->last_to_join = action.last;
  settle(*joined);
}

void Coordinator::carry_out(Issue& action, Now) {
  const auto now = Clock::now();
  Stream& stream = stream_of(action.channel);
  std::uint64_t packed = 0;
  Batch batch;
  batch.number = stream.issued++;
  for (RequestPtr& request : action.requests) {
    const auto found = names_.find(request->name);
    auto own = found != names_.end() ? found->second.current : nullptr;
    if (own) {
      found->second.issued_before = true;
      own->issued = true;
      own->record.batch = totals_.batches;
      own->record.negotiated_ns = ns_of(now);
      if (own->record.last) {
        const auto took = static_cast<std::uint64_t>(ns_of(now) - own->record.submitted_ns);
        totals_.negotiation_ns += took;
        totals_.longest_negotiation_ns = std::max(totals_.longest_negotiation_ns, took);
        ++totals_.negotiations;
      }
    }
    if (!action.error.empty()) {
      if (own) settle(*own, {ErrorKind::mismatch, action.error});
      continue;
    }
    batch.bytes += request->bytes;
    if (is_packed(*request)) packed += request->bytes;
    batch.carried.push_back({std::move(request), std::move(own)});
  }
  if (batch.carried.empty()) return;
  ++totals_.batches;
  if (batch.carried.size() > 1) totals_.fused_bytes += packed;
  busy_ += std::max<std::uint64_t>(batch.bytes, 1);
  stream.queue.push_back(std::move(batch));
  policy_->busy(busy_);
}

// What others have begun on that channel, and this rank has not, is not for it any more.
void Coordinator::carry_out(Cancel& action, Now) {
  const auto found = std::ranges::find(streams_, action.channel, [](const auto& stream) { return stream->channel; });
  if (found == streams_.end()) {
    engine_->closed_channels_.insert(streams_.front()->group->channel + action.channel);
    return;
  }
  Stream& stream = **found;
  stream.ending = true;
  const auto first =
      std::ranges::find_if(stream.queue, [&](const Batch& batch) { return batch.number >= action.from; });
  for (auto batch = first; batch != stream.queue.end(); ++batch) {
    if (batch->carriage) abandon(*batch->carriage);
    for (const Carried& carried :
         batch->carriage ? batch->carriage->carried() : std::span<const Carried>(batch->carried))
      if (carried.own) carried.own->issued = false;
    busy_ -= std::max<std::uint64_t>(batch->bytes, 1);
  }
  stream.queue.erase(first, stream.queue.end());
  policy_->busy(busy_);
}

// --- batches

// Only what comes on channel 0 is never taken back.
Coordinator::Stream::Stream(Coordinator& owner, std::shared_ptr<Group> own_group, std::uint32_t own_channel)
    : group(std::move(own_group)),
      channel(own_channel),
      fusion(owner.engine_->arena_),
      around{*owner.engine_, *group, fusion, own_channel != 0,
             [&owner](Requested& requested) { owner.settle(requested); }} {}

// Every channel has a group of its own: where something is taken back, nobody can end what others have begun. A new one
// takes the place of the last, but of channel 0.
Coordinator::Stream& Coordinator::stream_of(std::uint32_t channel) {
  const auto found = std::ranges::find(streams_, channel, [](const auto& stream) { return stream->channel; });
  if (found != streams_.end()) return **found;
  for (auto& stream : streams_ | std::views::drop(1)) stream->ending = true;
  const Group& like = *streams_.front()->group;
  std::vector<int> peers;
  peers.reserve(like.members.size());
  for (const Member& member : like.members) peers.push_back(member.peer);
  auto made = engine_->make_group(like.channel + channel, like.rank, peers, like.timeout, like.plans);
  made->use = Group::Use::data;
  return *streams_.emplace_back(std::make_unique<Stream>(*this, std::move(made), channel));
}

bool Coordinator::carry() {
  bool moved = false;
  const auto before = busy_;
  for (std::size_t i = 0; i < streams_.size(); ++i) moved |= carry(*streams_[i]);
  std::erase_if(streams_, [&](const auto& stream) {
    const bool over = stream->ending && stream->queue.empty();
    if (over) engine_->drop_group(*stream->group);
    return over;
  });
  if (busy_ != before) policy_->busy(busy_);
  return moved;
}

bool Coordinator::carry(Stream& stream) {
  bool moved = false;
  while (!stream.queue.empty()) {
    Batch& batch = stream.queue.front();
    const bool packs = batch.carriage ? batch.carriage->has_work() : batch.carried.size() > 1;
    if (submitting_ && batch.bytes > kBySubmitter && packs) break;
    if (!batch.carriage) batch.carriage = paceline::carry(stream.around, std::move(batch.carried));
    if (!batch.carriage->step()) break;
    moved = true;
    if (!batch.carriage->over()) break;
    busy_ -= std::max<std::uint64_t>(batch.bytes, 1);
    stream.queue.pop_front();
  }
  return moved;
}

// Gives up what is under way: nobody will ever end it.
void Coordinator::abandon(const Carriage& carriage) {
  for (const Handle& handle : carriage.moving()) handle->fail({ErrorKind::aborted, "its batch was taken back"});
}

}  // namespace paceline
