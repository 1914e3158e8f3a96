#include "policy/board.hpp"

#include <algorithm>

#include "failure/error.hpp"

namespace paceline {

namespace {

// A mark holds the round, the number of the description in the slot, and the priority.
constexpr std::int32_t kHighestPriority = (1 << 19) - 1;

std::uint64_t mark_word(std::uint32_t round, std::uint32_t number, std::int32_t priority) {
  const auto shifted =
      static_cast<std::uint32_t>(std::clamp(priority, -kHighestPriority, kHighestPriority) + (1 << 19));
  return std::uint64_t{round} << 32 | std::uint64_t{number} << 20 | shifted;
}

std::uint32_t round_of(std::uint64_t mark) { return static_cast<std::uint32_t>(mark >> 32); }
std::uint32_t number_of(std::uint64_t mark) { return static_cast<std::uint32_t>(mark >> 20) & 0xfff; }
std::int32_t priority_of(std::uint64_t mark) { return static_cast<std::int32_t>(mark & 0xfffff) - (1 << 19); }

// Requests are held only on one machine, because rank 0 does not hear of waiting ranks on others, and only if there are
// other ranks to wake up.
bool is_one_machine(const Seat& seat) {
  return seat.size() > 1 && std::ranges::count(seat.machine_of, seat.machine_of[0]) == seat.size();
}

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
  if (under_way_ >= memory_.most())
    throw Failure(ErrorKind::invalid, "there is no room for \"" + request->name + "\": " + std::to_string(under_way_) +
                                          " requests are under way, and no more may be; wait for some of them first");
  const std::size_t longest = std::min(kLongestName, 8 * (memory_.longest() - 16));
  if (request->name.size() + request->shape.size() > longest)
    throw Failure(ErrorKind::invalid, "the request \"" + request->name.substr(0, 40) +
                                          "...\" has a name and shape of " +
                                          std::to_string(request->name.size() + request->shape.size()) +
                                          " bytes; at most " + std::to_string(longest) + " are possible");
  if (at_rest_) return back_.push_back(std::move(request));
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

// Every rank cuts by what the log said before the cut, so all ranks make the same batches.
void Board::tune(std::uint64_t fusion_bytes) {
  if (rank_ != 0)
    throw Failure(ErrorKind::invalid,
                  "only rank 0 can tune, and tells the others; this is rank " + std::to_string(rank_));
  order({{pack({EntryKind::tune, 0, 2, 0}), fusion_bytes}});
  settle();
}

void Board::place(RequestPtr request, bool again) {
  const std::uint32_t slot = dictionary_.find(request->name);
  const int number = slot == kNoSlot ? -1 : dictionary_[slot].number_of(*request);
  if (number >= 0) {
    ++counters_.cache_hits;
    return arrive(slot, std::move(request), static_cast<std::uint32_t>(number));
  }
  ++counters_.cache_misses;
  Words entry{pack({EntryKind::define, again ? kAgain : std::uint8_t{0}, 0, static_cast<std::uint32_t>(rank_)})};
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

// Returns whether all ranks of this machine are ready in the slot, and reports what they have there.
bool Board::gather(std::uint32_t slot, Report& report) const {
  const SlotState& state = dictionary_[slot];
  bool any = false;
  bool agree = true;
  for (std::size_t local = 0; local < locals_.size(); ++local) {
    const int number = static_cast<int>(local);
    std::uint64_t mark = memory_.marked(slot, number);
    if (round_of(mark) != state.round) {
      if (!covers(memory_.joined(number), state.defined_at)) return false;
      mark = memory_.marked(slot, number);  // again: it may have marked before it published that it had joined
    }
    if (round_of(mark) != state.round) {
      if (report.absent < 0) report.absent = locals_[local];
      continue;
    }
    if (state.description(number_of(mark)) == nullptr) return false;  // this rank must read on in the log first
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

// This is not in the header: if GCC 12 sees what an action holds, it warns about the alternatives that it could hold.
void Board::give(Action action) { actions_.push_back(std::move(action)); }

void Board::give(std::vector<Issue>& batches) {
  for (Issue& batch : batches) {
    ++counters_.issues;
    counters_.issued += batch.requests.size();
    actions_.emplace_back(std::move(batch));
  }
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
