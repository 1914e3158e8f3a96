#include "policy/verdict.hpp"

#include <algorithm>
#include <map>

namespace paceline {

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text.append(end - i == 2 ? ", " : "-").append(std::to_string(ranks[end - 1]));
    i = end;
  }
  return text;
}

namespace {

constexpr std::size_t kSidesTold = 8;

std::string disagreement(const SlotState& slot, std::span<const std::pair<int, std::uint32_t>> sides) {
  std::map<std::uint32_t, std::vector<int>> ranks;
  for (const auto& [rank, number] : sides) ranks[number].push_back(rank);
  std::vector<std::pair<std::uint32_t, std::vector<int>>> told(ranks.begin(), ranks.end());
  std::ranges::sort(told, {}, [](const auto& side) { return *std::ranges::min_element(side.second); });
  std::string text = "ranks disagree about \"" + slot.definition->name + "\":";
  for (std::size_t i = 0; i < std::min(told.size(), kSidesTold); ++i) {
    const RequestPtr* description = slot.description(told[i].first);
    text += (i == 0 ? " " : "; ") + ranks_text(told[i].second) + " gave " +
            (description ? describe(**description) : "something else");
  }
  if (told.size() > kSidesTold) text += "; and " + std::to_string(told.size() - kSidesTold) + " more";
  if (text.size() > kLongestText) text.resize(kLongestText);
  return text;
}

bool disputes_bundle(const SlotState& slot, std::span<const std::pair<int, std::uint32_t>> sides) {
  const RequestPtr* first = slot.description(sides[0].second);
  return first != nullptr && std::ranges::any_of(sides, [&](const auto& side) {
           const RequestPtr* description = slot.description(side.second);
           return description != nullptr && (*description)->bundle != (*first)->bundle;
         });
}

void put_fail(Words& words, const Report& all, std::string_view text, std::uint8_t flags = 0) {
  const std::size_t begin = words.size();
  words.push_back(pack({EntryKind::fail, flags, 0, all.slot}));
  words.push_back(all.round | std::uint64_t{static_cast<std::uint32_t>(all.priority)} << 32);
  words.push_back(all.number);
  put_text(words, text);
  close_entry(words, begin);
}

}  // namespace

void put_verdict(Words& words, const SlotState& slot, const Report& all,
                 std::span<const std::pair<int, std::uint32_t>> sides) {
  const bool agree = std::ranges::all_of(sides, [&](const auto& side) { return side.second == sides[0].second; });
  if (!agree)
    return put_fail(words, all, disagreement(slot, sides), disputes_bundle(slot, sides) ? kDisputedBundle : 0);
  const RequestPtr* description = slot.description(all.number);
  if (all.absent >= 0 && description && !allows_joined(**description))
    return put_fail(words, all,
                    "\"" + slot.definition->name + "\" is a " + describe(**description) + ", which rank " +
                        std::to_string(all.absent) + " cannot take part in, because it has joined");
  words.push_back(pack({EntryKind::issue, 0, 3, all.slot}));
  words.push_back(all.round | std::uint64_t{static_cast<std::uint32_t>(all.priority)} << 32);
  words.push_back(all.number);
}

void put_report(Words& words, const Report& report) {
  const std::size_t begin = words.size();
  words.push_back(pack({EntryKind::ready, 0, 0, report.slot}));
  words.push_back(report.round | std::uint64_t{static_cast<std::uint32_t>(report.priority)} << 32);
  words.push_back(report.number | std::uint64_t{static_cast<std::uint32_t>(report.absent)} << 32);
  for (const auto& [rank, number] : report.disagreement)
    words.push_back(static_cast<std::uint32_t>(rank) | std::uint64_t{number} << 32);
  close_entry(words, begin);
}

bool is_report(std::span<const std::uint64_t> entry) { return entry.size() >= 3; }

Report report_of(std::span<const std::uint64_t> entry) {
  Report report;
  report.slot = head_of(entry[0]).number;
  report.round = static_cast<std::uint32_t>(entry[1]);
  report.priority = static_cast<std::int32_t>(entry[1] >> 32);
  report.number = static_cast<std::uint32_t>(entry[2]);
  report.absent = static_cast<std::int32_t>(entry[2] >> 32);
  for (const std::uint64_t word : entry.subspan(3))
    report.disagreement.emplace_back(static_cast<int>(word), static_cast<std::uint32_t>(word >> 32));
  return report;
}

}  // namespace paceline
