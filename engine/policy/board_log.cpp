// The board's log: what ranks write there, and what each entry leads to, the same on all ranks.
#include <algorithm>
#include <utility>

#include "failure/error.hpp"
#include "policy/board.hpp"

namespace paceline {

namespace {

constexpr std::size_t kDescriptions = 4000;  // at most in one round, so that their numbers fit

// These entries lead to nothing before the next cut, so no rank need be woken up for them.
bool waits_for_cut(EntryKind kind) {
  return kind == EntryKind::issue || kind == EntryKind::fail || kind == EntryKind::tune;
}

// The bundles of all descriptions of a request.
std::vector<std::uint64_t> bundles_of(const SlotState& state) {
  std::vector<std::uint64_t> bundles{state.definition->bundle.id};
  if (state.others)
    for (const RequestPtr& other : *state.others) bundles.push_back(other->bundle.id);
  return bundles;
}

}  // namespace

void Board::log(std::span<const std::uint64_t> entry) {
  const EntryKind kind = head_of(entry[0]).kind;
  if (kind == EntryKind::grow) memory_.grow(head_of(entry[0]).number);
  if (orderer_) {
    to_leaders_.insert(to_leaders_.end(), entry.begin(), entry.end());
    if (!waits_for_cut(kind)) to_leaders_due_ = true;
  }
  if (owed_.empty() && memory_.append(entry))
    notify(kind);
  else
    owed_.emplace_back(entry.begin(), entry.end());
}

// Other ranks need not wake up for an entry that waits for a cut, nor for a description: a rank that has submitted the
// same request has written it, too. But if others have written behind this one, they could not be read until now.
void Board::notify(EntryKind kind) {
  if (memory_.overtaken()) ring_ = true;
  if (waits_for_cut(kind)) return;
  if ((kind == EntryKind::define || kind == EntryKind::join) && alone()) return;
  ring_ = true;
}

void Board::settle() {
  if (following_ || at_rest_) return;
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
    while (!at_rest_ && memory_.read(local_, position_, entry_)) {
      more = true;
      read_since_ring_ += entry_.size();
      apply(entry_);
    }
    if (at_rest_) break;
    more = place_evicted() || more;
    publish();
    if (orderer_ && owed_.empty() && !inbox_.empty()) {
      const auto [from, entry] = std::move(inbox_.front());
      inbox_.pop_front();
      orderer_->take(from, entry, epoch_);
      more = true;
    }
  }
  // Another rank may wait for room in the log.
  if (read_since_ring_ < memory_.longest()) return;
  read_since_ring_ = 0;
  ring_ = true;
}

bool Board::place_evicted() {
  if (evicted_.empty()) return false;
  for (RequestPtr& request : std::exchange(evicted_, {})) place(std::move(request), true);
  return true;
}

void Board::make_room() {
  if (rank_ != 0 || growing_ || dictionary_.capacity() >= memory_.most()) return;
  growing_ = true;
  order({{pack({EntryKind::grow, 0, 1, 2 * dictionary_.capacity()})}});
}

bool Board::holds() const {
  return joins_ == 0 && window_.bytes() < window_.fusion_bytes() && holding_.holds(window_.bytes());
}

void Board::apply(std::span<const std::uint64_t> entry) {
  const EntryHead head = head_of(entry[0]);
  switch (head.kind) {
    case EntryKind::define: return apply_define(entry);
    case EntryKind::issue:
    case EntryKind::fail: return apply_over(entry);
    case EntryKind::cut: return cut();
    case EntryKind::join:
      if (head.flags != (rests_ & 0xff)) return;
      ++joins_;
      last_joined_ = static_cast<int>(head.number);
      return;
    case EntryKind::settle:
      if (++settles_ == size_) all_joined(last_joined_);
      return;
    case EntryKind::joined: return all_joined(static_cast<int>(head.number));
    case EntryKind::tune: return window_.set_fusion_bytes(entry[1]);
    case EntryKind::rest: return apply_rest(entry);
    case EntryKind::grow:
      growing_ = false;
      return dictionary_.set_capacity(std::max(dictionary_.capacity(), head.number));
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
    const bool evicts = dictionary_.size() == dictionary_.capacity();
    if (evicts && head_of(entry[0]).flags == kAgain) make_room();
    const auto placed = dictionary_.define(request, position);
    slot = placed.slot;
    if (placed.evicted) evicted_.push_back(placed.evicted);
    if (joining_) fresh_.push_back(slot);
    // A rank whose request was evicted describes it anew; a rank that has joined says that it knows this name.
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
  const bool disputed = head_of(entry[0]).kind == EntryKind::fail && head_of(entry[0]).flags == kDisputedBundle;
  const auto bundles = disputed ? bundles_of(state) : std::vector<std::uint64_t>{};
  dictionary_.finish(slot, error.empty() && state.mine ? 0 : number);
  round_over(request, !error.empty());
  if (disputed)
    window_.add_disputed(std::move(request), priority, error, bundles);
  else
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
  if (!at_rest_) was_cut();
}

}  // namespace paceline
