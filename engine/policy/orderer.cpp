#include "policy/orderer.hpp"

#include <algorithm>

namespace paceline {

Orderer::Orderer(const Seat& seat, const Dictionary& dictionary, std::function<void(const Words&)> log)
    : dictionary_(dictionary), log_(std::move(log)), machine_of_(seat.machine_of), has_joined_(machine_of_.size()) {
  for (std::size_t rank = 0; rank < machine_of_.size(); ++rank) {
    const auto machine = static_cast<std::size_t>(machine_of_[rank]);
    if (machine >= ranks_of_.size()) ranks_of_.resize(machine + 1);
    ranks_of_[machine].push_back(static_cast<int>(rank));
  }
  full_at_.resize(ranks_of_.size());
}

void Orderer::take(int from, std::span<const std::uint64_t> entry, std::uint64_t epoch) {
  switch (head_of(entry[0]).kind) {
    case EntryKind::ready: return take_ready(from, entry);
    case EntryKind::define: return take_define(entry);
    case EntryKind::join:
      // Other ranks need to know only that there is an error.
      if (std::ranges::find(has_joined_, true) == has_joined_.end()) log_(Words(entry.begin(), entry.end()));
      has_joined_[static_cast<std::size_t>(from)] = true;
      last_joined_ = from;
      return;
    case EntryKind::settle: return take_settle();
    case EntryKind::full: {
      if (entry[2] != epoch) return;
      std::uint64_t& full = full_at_[static_cast<std::size_t>(machine_of_[static_cast<std::size_t>(from)])];
      full = std::max(full, entry[1]);
      for (std::uint32_t slot = 0; slot < gatherings_.size(); ++slot) decide(slot);
      return;
    }
    case EntryKind::start: return take_start(entry);
    default: return log_(Words(entry.begin(), entry.end()));
  }
}

void Orderer::take_ready(int from, std::span<const std::uint64_t> entry) {
  Report report = report_of(entry);
  if (!dictionary_.defined(report.slot) || report.round != dictionary_[report.slot].round) return;
  if (report.slot >= gatherings_.size()) gatherings_.resize(report.slot + 1);
  Gathering& gathering = gatherings_[report.slot];
  if (gathering.round != report.round) {
    gathering.round = report.round;
    gathering.reports.clear();
    gathering.reported.assign(ranks_of_.size(), false);
  }
  const int machine = machine_of_[static_cast<std::size_t>(from)];
  if (gathering.reported[static_cast<std::size_t>(machine)]) return;
  gathering.reported[static_cast<std::size_t>(machine)] = true;
  const std::uint32_t slot = report.slot;
  gathering.reports.emplace_back(machine, std::move(report));
  decide(slot);
}

void Orderer::decide(std::uint32_t slot) {
  const Gathering& gathering = gatherings_[slot];
  if (gathering.reports.empty() || gathering.round != dictionary_[slot].round) return;
  Report all = gathering.reports[0].second;
  bool agree = true;
  for (const auto& [machine, report] : gathering.reports) {
    all.priority = std::max(all.priority, report.priority);
    if (all.absent < 0) all.absent = report.absent;
    agree = agree && report.number == all.number && report.disagreement.empty();
  }
  if (gathering.reports.size() < ranks_of_.size())
    for (std::size_t machine = 0; machine < ranks_of_.size(); ++machine) {
      if (gathering.reported[machine]) continue;
      if (!covered(machine, slot)) return;
      if (all.absent < 0) all.absent = ranks_of_[machine][0];
    }
  std::vector<std::pair<int, std::uint32_t>> sides;
  if (!agree)
    for (const auto& [machine, report] : gathering.reports) {
      const std::size_t before = sides.size();
      const auto& ranks = ranks_of_[static_cast<std::size_t>(machine)];
      sides.insert(sides.end(), report.disagreement.begin(), report.disagreement.end());
      if (report.disagreement.empty())
        for (const int rank : ranks)
          if (report.absent < 0 || !has_joined_[static_cast<std::size_t>(rank)])
            sides.emplace_back(rank, report.number);
      if (sides.size() == before) sides.emplace_back(ranks[0], report.number);
    }
  words_.clear();
  put_verdict(words_, dictionary_[slot], all, sides);
  log_(words_);
}

void Orderer::take_define(std::span<const std::uint64_t> entry) {
  auto rest = entry.subspan(1);
  const Request request = read_request(rest);
  const std::uint32_t slot = dictionary_.find(request.name);
  if (slot == kNoSlot || dictionary_[slot].number_of(request) < 0) log_(Words(entry.begin(), entry.end()));
}

void Orderer::take_settle() {
  if (++settled_ < static_cast<int>(machine_of_.size())) return;
  settled_ = 0;
  std::ranges::fill(full_at_, 0);
  has_joined_.assign(has_joined_.size(), false);
  log_({pack({EntryKind::joined, 0, 1, static_cast<std::uint32_t>(last_joined_)})});
}

void Orderer::take_start(std::span<const std::uint64_t> entry) {
  const std::uint8_t question = head_of(entry[0]).flags;
  if (!starts_.take(question, entry[1], static_cast<int>(machine_of_.size()))) return;
  const auto flags = static_cast<std::uint8_t>(question | (starts_.differed ? 0x80 : 0));
  log_({pack({EntryKind::started, flags, 2, 0}), entry[1]});
}

std::vector<int> Orderer::missing(std::uint32_t slot) const {
  std::vector<int> ranks;
  const bool any = slot < gatherings_.size() && gatherings_[slot].round == dictionary_[slot].round;
  for (std::size_t machine = 0; machine < ranks_of_.size(); ++machine) {
    if ((any && gatherings_[slot].reported[machine]) || covered(machine, slot)) continue;
    ranks.insert(ranks.end(), ranks_of_[machine].begin(), ranks_of_[machine].end());
  }
  return ranks;
}

}  // namespace paceline
