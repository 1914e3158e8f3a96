#include "coordinate/board.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "failure/error.hpp"

namespace paceline {

namespace {

// A mark: the round, the number of the description in the slot, the priority.
constexpr std::int32_t kHighestPriority = (1 << 19) - 1;

std::uint64_t mark_word(std::uint32_t round, std::uint32_t number, std::int32_t priority) {
  const auto shifted =
      static_cast<std::uint32_t>(std::clamp(priority, -kHighestPriority, kHighestPriority) + (1 << 19));
  return std::uint64_t{round} << 32 | std::uint64_t{number} << 20 | shifted;
}

std::uint32_t round_of(std::uint64_t mark) { return static_cast<std::uint32_t>(mark >> 32); }
std::uint32_t number_of(std::uint64_t mark) { return static_cast<std::uint32_t>(mark >> 20) & 0xfff; }
std::int32_t priority_of(std::uint64_t mark) { return static_cast<std::int32_t>(mark & 0xfffff) - (1 << 19); }

constexpr std::size_t kDescriptions = 4000;  // of one round, so that their numbers fit

// Nothing comes of these before the next cut, so that nobody need be woken up for them.
bool waits_for_cut(EntryKind kind) {
  return kind == EntryKind::issue || kind == EntryKind::fail || kind == EntryKind::tune;
}

// Rank 0 does not hear who waits on other machines; and alone there is nobody to wake up.
bool is_one_machine(const Seat& seat) {
  return seat.size() > 1 && std::ranges::count(seat.machine_of, seat.machine_of[0]) == seat.size();
}

// A word of having joined: the epoch, from 1, and a position in the log.
constexpr unsigned kPositionBits = 40;

}  // namespace

Board::Board(const PolicyOptions& options, const Seat& seat, BoardMemory& memory)
    : rank_(seat.rank),
      memory_(memory),
      dictionary_(memory.slots()),
      window_(options.fusion_bytes),
      holding_(is_one_machine(seat) ? options.cycle_seconds : 0, memory) {
  std::vector<bool> seen;
  for (int rank = 0; rank < seat.size(); ++rank) {
    const auto machine = static_cast<std::size_t>(seat.machine_of[static_cast<std::size_t>(rank)]);
    if (machine >= seen.size()) seen.resize(machine + 1);
    if (!seen[machine] && machine != static_cast<std::size_t>(seat.machine_of[0])) leaders_.push_back(rank);
    seen[machine] = true;
    if (static_cast<int>(machine) != seat.machine_of[static_cast<std::size_t>(rank_)]) continue;
    if (rank == rank_) local_ = static_cast<int>(locals_.size());
    locals_.push_back(rank);
  }
  machines_ = 1 + static_cast<int>(leaders_.size());
  size_ = seat.size();
  if (memory.ranks() != static_cast<int>(locals_.size()))
    throw Failure(ErrorKind::invalid, "the board is for " + std::to_string(memory.ranks()) + " ranks, and " +
                                          std::to_string(locals_.size()) + " are on this machine");
  if (machines_ > 1 && rank_ == 0)
    orderer_ = std::make_unique<Orderer>(seat, dictionary_, [this](const Words& entry) { log(entry); });
}

void Board::submit(RequestPtr request, double now) {
  holding_.tell(now);
  if (under_way_ >= memory_.slots())
    throw Failure(ErrorKind::invalid, "there is no room for \"" + request->name + "\": " + std::to_string(under_way_) +
                                          " requests are under way, and no more may be; wait for some of them first");
  const std::size_t longest = std::min(kLongestName, 8 * (memory_.longest() - 16));
  if (request->name.size() + request->shape.size() > longest)
    throw Failure(ErrorKind::invalid, "the request \"" + request->name.substr(0, 40) +
                                          "...\" has a name and shape of " +
                                          std::to_string(request->name.size() + request->shape.size()) +
                                          " bytes; at most " + std::to_string(longest) + " are possible");
  ++under_way_;
  place(std::move(request));
  settle();
}

void Board::wake(double now) {
  holding_.tell(now);
  holding_.woke();
  settle();
}

void Board::look(double now) {
  holding_.tell(now);
  settle();
}

void Board::wanted(const Request& request, double now) {
  holding_.tell(now);
  if (has(request) || window_.has(request)) holding_.awaited(request);
  settle();
}

void Board::join(double) {
  joining_ = true;
  order({{pack({EntryKind::join, 0, 1, static_cast<std::uint32_t>(rank_)})}});
  settle();
}

// Every rank cuts by what the log said before the cut, so all come to the same batches.
void Board::tune(std::uint64_t fusion_bytes) {
  if (rank_ != 0)
    throw Failure(ErrorKind::invalid,
                  "only rank 0 can tune, and tells the others; this is rank " + std::to_string(rank_));
  order({{pack({EntryKind::tune, 0, 2, 0}), fusion_bytes}});
  settle();
}

void Board::place(RequestPtr request) {
  const std::uint32_t slot = dictionary_.find(request->name);
  const int number = slot == kNoSlot ? -1 : dictionary_[slot].number_of(*request);
  if (number >= 0) {
    ++counters_.cache_hits;
    return arrive(slot, std::move(request), static_cast<std::uint32_t>(number));
  }
  ++counters_.cache_misses;
  Words entry{pack({EntryKind::define, 0, 0, static_cast<std::uint32_t>(rank_)})};
  put_request(entry, *request);
  close_entry(entry, 0);
  const std::string_view name = request->name;
  unplaced_.emplace(name, std::move(request));
  order(entry);
}

void Board::arrive(std::uint32_t slot, RequestPtr request, std::uint32_t number) {
  SlotState& state = dictionary_[slot];
  memory_.mark(slot, local_, mark_word(state.round, number, request->priority));
  state.mine = std::move(request);
  check(slot);
}

bool Board::covers(std::uint64_t joined, std::uint64_t position) const {
  return joined >> kPositionBits == epoch_ + 1 && (joined & ((std::uint64_t{1} << kPositionBits) - 1)) > position;
}

// Whether all ranks of this machine are ready in the slot, and what they have there.
bool Board::gather(std::uint32_t slot, Report& report) const {
  const SlotState& state = dictionary_[slot];
  bool any = false;
  bool agree = true;
  for (std::size_t local = 0; local < locals_.size(); ++local) {
    const int number = static_cast<int>(local);
    std::uint64_t mark = memory_.marked(slot, number);
    if (round_of(mark) != state.round) {
      if (!covers(memory_.joined(number), state.defined_at)) return false;
      mark = memory_.marked(slot, number);  // it marked before it published that it had joined
    }
    if (round_of(mark) != state.round) {
      if (report.absent < 0) report.absent = locals_[local];
      continue;
    }
    if (state.description(number_of(mark)) == nullptr) return false;  // it will be when this rank has read on
    agree = agree && (!any || number_of(mark) == report.number);
    report.number = number_of(mark);
    report.priority = any ? std::max(report.priority, priority_of(mark)) : priority_of(mark);
    any = true;
  }
  if (!agree)
    for (std::size_t local = 0; local < locals_.size(); ++local)
      if (const std::uint64_t mark = memory_.marked(slot, static_cast<int>(local)); round_of(mark) == state.round)
        report.disagreement.emplace_back(locals_[local], number_of(mark));
  report.slot = slot;
  report.round = state.round;
  return any;
}

void Board::check(std::uint32_t slot) {
  Report report;
  if (!gather(slot, report) || !memory_.claim(slot, report.round)) return;
  dictionary_[slot].claimed = report.round;
  written_.clear();
  if (alone())
    put_verdict(written_, dictionary_[slot], report, report.disagreement);
  else
    put_report(written_, report);
  order(written_);
}

void Board::order(std::span<const std::uint64_t> entry) {
  if (orderer_)
    inbox_.emplace_back(rank_, Words(entry.begin(), entry.end()));
  else if (alone())
    log(entry);
  else
    to_orderer_.insert(to_orderer_.end(), entry.begin(), entry.end());
}

void Board::log(std::span<const std::uint64_t> entry) {
  const EntryKind kind = head_of(entry[0]).kind;
  if (orderer_) {
    to_leaders_.insert(to_leaders_.end(), entry.begin(), entry.end());
    if (!waits_for_cut(kind)) to_leaders_due_ = true;
  }
  if (owed_.empty() && memory_.append(entry))
    notify(kind);
  else
    owed_.emplace_back(entry.begin(), entry.end());
}

// Others need not wake up for what waits for a cut, nor for a description: who has handed in the same wrote it, too.
void Board::notify(EntryKind kind) {
  if (waits_for_cut(kind)) return;
  if ((kind == EntryKind::define || kind == EntryKind::join) && alone()) return;
  ring_ = true;
}

void Board::settle() {
  if (following_) return;
  following_ = true;
  const struct Leave {
    bool& flag;
    ~Leave() { flag = false; }
  } leave{following_};
  for (bool more = true; more;) {
    while (!owed_.empty() && memory_.append(owed_.front())) {
      notify(head_of(owed_.front()[0]).kind);
      owed_.pop_front();
    }
    more = false;
    while (memory_.read(local_, position_, entry_)) {
      more = true;
      read_since_ring_ += entry_.size();
      apply(entry_);
    }
    more = place_evicted() || more;
    publish();
    if (orderer_ && owed_.empty() && !inbox_.empty()) {
      const auto [from, entry] = std::move(inbox_.front());
      inbox_.pop_front();
      orderer_->take(from, entry, epoch_);
      more = true;
    }
  }
  // Somebody may wait for room in the log.
  if (read_since_ring_ < memory_.longest()) return;
  read_since_ring_ = 0;
  ring_ = true;
}

bool Board::holds() const {
  return joins_ == 0 && window_.bytes() < window_.fusion_bytes() && holding_.holds(window_.bytes());
}

bool Board::place_evicted() {
  if (evicted_.empty()) return false;
  for (RequestPtr& request : std::exchange(evicted_, {})) place(std::move(request));
  return true;
}

void Board::apply(std::span<const std::uint64_t> entry) {
  const EntryHead head = head_of(entry[0]);
  switch (head.kind) {
    case EntryKind::define: return apply_define(entry);
    case EntryKind::issue:
    case EntryKind::fail: return apply_over(entry);
    case EntryKind::cut: return cut();
    case EntryKind::join:
      ++joins_;
      last_joined_ = static_cast<int>(head.number);
      return;
    case EntryKind::settle:
      if (++settles_ == size_) all_joined(last_joined_);
      return;
    case EntryKind::joined: return all_joined(static_cast<int>(head.number));
    case EntryKind::tune: return window_.set_fusion_bytes(entry[1]);
    default: return ordered(entry);
  }
}

void Board::apply_define(std::span<const std::uint64_t> entry) {
  const std::uint64_t position = position_ - entry.size();
  auto rest = entry.subspan(1);
  auto request = std::make_shared<const Request>(read_request(rest));
  const auto own = unplaced_.find(request->name);
  if (own != unplaced_.end() && own->second->agrees_with(*request)) request = own->second;
  std::uint32_t slot = dictionary_.find(request->name);
  if (slot == kNoSlot) {
    const bool evicts = dictionary_.size() == memory_.slots();
    const auto placed = dictionary_.define(request, position);
    slot = placed.slot;
    if (placed.evicted) evicted_.push_back(placed.evicted);
    if (joining_) fresh_.push_back(slot);
    // Whose request was evicted describes it anew; who has joined says that it knows this name.
    if ((evicts || joins_ > 0) && head_of(entry[0]).number == static_cast<std::uint32_t>(rank_)) ring_ = true;
  } else if (SlotState& state = dictionary_[slot]; state.number_of(*request) < 0) {
    if (!state.others) state.others = std::make_unique<std::vector<RequestPtr>>();
    if (state.others->size() < kDescriptions) state.others->push_back(request);
  }
  if (own == unplaced_.end()) return check(slot);
  const int number = dictionary_[slot].number_of(*own->second);
  if (number < 0) return check(slot);
  RequestPtr mine = std::move(own->second);
  unplaced_.erase(own);
  arrive(slot, std::move(mine), static_cast<std::uint32_t>(number));
}

void Board::apply_over(std::span<const std::uint64_t> entry) {
  const std::uint32_t slot = head_of(entry[0]).number;
  const auto round = static_cast<std::uint32_t>(entry[1]);
  const auto priority = static_cast<std::int32_t>(entry[1] >> 32);
  const auto number = static_cast<std::uint32_t>(entry[2]);
  // The slot may have gone to another name since this was written.
  if (!dictionary_.defined(slot) || dictionary_[slot].round != round) return;
  SlotState& state = dictionary_[slot];
  const RequestPtr* description = state.description(number);
  if (description == nullptr)
    throw Failure(ErrorKind::invalid, "a request was issued by a description that it never had");
  std::string error;
  if (head_of(entry[0]).kind == EntryKind::fail) {
    auto rest = entry.subspan(3);
    error = take_text(rest).value_or("");
  }
  if (window_.empty()) holding_.begin(state.claimed == round);
  RequestPtr request = state.mine ? state.mine : *description;
  if (state.mine) {
    --under_way_;
    if (error.empty()) state.definition = state.mine;
  }
  dictionary_.finish(slot, error.empty() && state.mine ? 0 : number);
  round_over(request, !error.empty());
  window_.add(std::move(request), priority, std::move(error));
}

void Board::cut() {
  cutting_ = false;
  batches_.clear();
  window_.cut(batches_);
  holding_.end();
  for (const Issue& batch : batches_)
    for (const RequestPtr& request : batch.requests) holding_.issued(*request);
  give(batches_);
  was_cut();
}

void Board::give(std::vector<Issue>& batches) {
  for (Issue& batch : batches) {
    ++counters_.issues;
    counters_.issued += batch.requests.size();
    actions_.emplace_back(std::move(batch));
  }
}

RequestPtr Board::withdraw(std::string_view name) {
  RequestPtr mine;
  if (const std::uint32_t slot = dictionary_.find(name); slot != kNoSlot) {
    mine = dictionary_[slot].mine;
    dictionary_.finish(slot, 0);
  }
  if (const auto own = unplaced_.find(name); own != unplaced_.end()) {
    mine = std::move(own->second);
    unplaced_.erase(own);
  }
  if (const auto own = std::ranges::find(evicted_, name, &Request::name); own != evicted_.end()) {
    mine = std::move(*own);
    evicted_.erase(own);
  }
  if (mine) --under_way_;
  return mine;
}

bool Board::has(const Request& request) const {
  if (const auto own = unplaced_.find(request.name); own != unplaced_.end()) return own->second.get() == &request;
  if (std::ranges::find(evicted_, &request, &RequestPtr::get) != evicted_.end()) return true;
  const std::uint32_t slot = dictionary_.find(request.name);
  return slot != kNoSlot && dictionary_[slot].mine.get() == &request;
}

void Board::all_joined(int last) {
  cut();
  actions_.emplace_back(Joined{last});
  ++epoch_;
  joining_ = settled_ = published_ = false;
  fresh_.clear();
  told_full_ = 0;
  joins_ = settles_ = 0;
  all_have_joined();
}

void Board::publish() {
  if (!joining_ || joins_ == 0 || holds_requests()) return;
  if (!settled_ && under_way_ == 0) {
    settled_ = true;
    order({{pack({EntryKind::settle, 0, 1, static_cast<std::uint32_t>(rank_)})}});
  }
  if (!unplaced_.empty() || !evicted_.empty() || (published_ && fresh_.empty())) return;
  memory_.join(local_, (epoch_ + 1) << kPositionBits | position_);
  if (published_)
    for (const std::uint32_t slot : fresh_) check(slot);
  else
    for (std::uint32_t slot = 0; slot < dictionary_.size(); ++slot) check(slot);
  published_ = true;
  fresh_.clear();
  if (!alone()) tell_full();
}

// Once all ranks of this machine have joined, nobody will mark anything here. Rank 0 learns that, and before it what is
// marked: what it does not hear of, there is not.
void Board::tell_full() {
  std::uint64_t position = std::numeric_limits<std::uint64_t>::max();
  for (int local = 0; local < static_cast<int>(locals_.size()); ++local) {
    const std::uint64_t joined = memory_.joined(local);
    if (joined >> kPositionBits != epoch_ + 1) return;
    position = std::min(position, joined & ((std::uint64_t{1} << kPositionBits) - 1));
  }
  if (position <= told_full_) return;
  told_full_ = position;
  for (std::uint32_t slot = 0; slot < dictionary_.size(); ++slot) {
    Report report;
    if (dictionary_[slot].defined_at >= position || !gather(slot, report)) continue;
    written_.clear();
    put_report(written_, report);
    order(written_);
  }
  order({{pack({EntryKind::full, 0, 3, 0}), position, epoch_}});
}

bool Board::is_sound(int from, std::span<const std::uint64_t> entry) const {
  const EntryHead head = head_of(entry[0]);
  const bool own = head.number == static_cast<std::uint32_t>(from);
  if (head.kind == EntryKind::define) {
    auto rest = entry.subspan(1);
    return entry.size() <= memory_.longest() && (own || from == 0) && take_request(rest) && rest.empty();
  }
  const bool is_slot = head.number < memory_.slots();
  if (rank_ == 0) switch (head.kind) {
      case EntryKind::ready:
        if (!is_slot || !is_report(entry)) return false;
        return std::ranges::all_of(entry.subspan(3),
                                   [&](auto word) { return (word & 0xffffffff) < std::uint64_t(size_); });
      case EntryKind::join:
      case EntryKind::settle: return own && entry.size() == 1;
      case EntryKind::full:
      case EntryKind::deviate: return entry.size() == 3;
      case EntryKind::start: return own && entry.size() == 2 && head.flags < 2;
      default: return false;
    }
  switch (head.kind) {
    case EntryKind::issue: return is_slot && entry.size() == 3;
    case EntryKind::fail: {
      if (!is_slot || entry.size() < 4 || entry.size() > memory_.longest()) return false;
      auto rest = entry.subspan(3);
      return take_text(rest) && rest.empty();
    }
    case EntryKind::cut:
    case EntryKind::join: return entry.size() == 1;
    case EntryKind::started:
    case EntryKind::tune: return entry.size() == 2;
    case EntryKind::deviate: return entry.size() == 3;
    case EntryKind::joined: return entry.size() == 1 && head.number < static_cast<std::uint32_t>(size_);
    default: return false;
  }
}

void Board::receive(int from, std::span<const std::byte> message, double) {
  Words words(message.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), message.data(), words.size() * 8);
  std::vector<std::span<const std::uint64_t>> entries;
  std::span<const std::uint64_t> rest = words;
  const bool expected =
      !alone() && from != rank_ && from >= 0 && from < size_ && (rank_ == 0 || (from == 0 && local_ == 0));
  bool sound = expected && message.size() % 8 == 0;
  while (sound && !rest.empty()) {
    const auto entry = take_entry(rest);
    sound = entry && is_sound(from, *entry);
    if (sound) entries.push_back(*entry);
  }
  if (!sound)
    throw Failure(ErrorKind::invalid, "rank " + std::to_string(from) + " sent " + std::to_string(message.size()) +
                                          " bytes to rank " + std::to_string(rank_) +
                                          " that are no message of the policy board");
  for (const auto& entry : entries) {
    if (orderer_)
      inbox_.emplace_back(from, Words(entry.begin(), entry.end()));
    else
      log(entry);
  }
  settle();
}

void Board::flush_messages() {
  const auto send = [&](int to, const Words& words) {
    Send message{to, std::vector<std::byte>(words.size() * 8)};
    std::memcpy(message.message.data(), words.data(), message.message.size());
    sends_.push_back(std::move(message));
    ++counters_.messages;
  };
  if (!to_orderer_.empty()) send(0, to_orderer_);
  to_orderer_.clear();
  if (!to_leaders_due_) return;
  for (const int leader : leaders_) send(leader, to_leaders_);
  to_leaders_.clear();
  to_leaders_due_ = false;
}

std::optional<Action> Board::next() {
  settle();
  if (orders() && !cutting_ && !window_.empty() && (busy_ == 0 || window_.bytes() >= window_.fusion_bytes())) {
    if (!holds()) {
      cutting_ = true;
      log({{pack({EntryKind::cut, 0, 1, 0})}});
      settle();
    } else if (const auto until = holding_.sleep()) {
      return Sleep{*until};
    }
  }
  if (std::exchange(ring_, false) && locals_.size() > 1) return Ring{};
  flush_messages();
  if (!sends_.empty()) {
    Action action = std::move(sends_.front());
    sends_.pop_front();
    return action;
  }
  if (actions_.empty()) return std::nullopt;
  Action action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

std::vector<int> Board::missing(const Request& request) const {
  const std::uint32_t slot = dictionary_.find(request.name);
  if (slot == kNoSlot || dictionary_[slot].mine.get() != &request) return {};
  std::vector<int> ranks;
  const SlotState& state = dictionary_[slot];
  for (std::size_t local = 0; local < locals_.size(); ++local)
    if (const int number = static_cast<int>(local);
        round_of(memory_.marked(slot, number)) != state.round && !covers(memory_.joined(number), state.defined_at))
      ranks.push_back(locals_[local]);
  if (!orderer_) return ranks;
  for (const int rank : orderer_->missing(slot))
    if (!std::ranges::binary_search(locals_, rank)) ranks.push_back(rank);
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace paceline
