// Messages between the boards of several machines: they go to rank 0, which orders, and from it to the lowest rank of
// every machine.
#include <algorithm>
#include <cstring>

#include "failure/error.hpp"
#include "policy/board.hpp"

namespace paceline {

void Board::order(std::span<const std::uint64_t> entry) {
  if (orderer_)
    inbox_.emplace_back(rank_, Words(entry.begin(), entry.end()));
  else if (alone())
    log(entry);
  else
    to_orderer_.insert(to_orderer_.end(), entry.begin(), entry.end());
}

bool Board::is_sound(int from, std::span<const std::uint64_t> entry) const {
  const EntryHead head = head_of(entry[0]);
  const bool own = head.number == static_cast<std::uint32_t>(from);
  if (head.kind == EntryKind::define) {
    auto rest = entry.subspan(1);
    return entry.size() <= memory_.longest() && (own || from == 0) && take_request(rest) && rest.empty();
  }
  const bool is_slot = head.number < memory_.most();
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
    case EntryKind::rest: return entry.size() <= memory_.longest();
    case EntryKind::grow: return entry.size() == 1 && head.number <= memory_.most();
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
  if (at_rest_) return;
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

}  // namespace paceline
