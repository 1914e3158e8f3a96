#include "execute/group.hpp"

#include <algorithm>
#include <cstring>

namespace paceline {

int Group::rank_of(int peer) const {
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].peer == peer) return static_cast<int>(i);
  return -1;
}

const Plan& Group::plan_for(std::string_view collective, std::size_t bytes) const {
  const auto found = plans.find(collective);
  if (found == plans.end() || found->second.empty())
    throw Failure(ErrorKind::invalid, "this group has no plan for " + std::string(collective));
  for (const Plan& plan : found->second)
    if (plan.limit_bytes < 0 || bytes <= static_cast<std::size_t>(plan.limit_bytes)) return plan;
  return found->second.back();
}

std::size_t Group::one_shot_limit() const {
  if (!on_one_machine()) return 0;
  const Plan& smallest = plan_for("all_reduce", 0);
  const bool limited = smallest.one_shot && smallest.limit_bytes >= 0;
  return limited ? std::min(kOneShotBytes, static_cast<std::size_t>(smallest.limit_bytes)) : 0;
}

std::string Group::name_of(int group_rank) const {
  const std::string& description = members[static_cast<std::size_t>(group_rank)].description;
  const std::string name = "rank " + std::to_string(group_rank);
  return description.starts_with(name + " ") ? description : "group " + name + " = " + description;
}

std::string Group::name_of(const std::string& description) const {
  const auto found = std::ranges::find(members, description, &Member::description);
  return found == members.end() ? description : name_of(static_cast<int>(found - members.begin()));
}

bool Group::has_ended(int group_rank) const {
  const int place = segment != nullptr ? segment->place_of(group_rank) : -1;
  return place >= 0 && segment->knows(place) && segment->ended(place);
}

Error Group::unreadable(int group_rank, int failure) const {
  return {ErrorKind::peer_lost,
          name_of(group_rank) + " is gone: its memory cannot be read any more (" + std::strerror(failure) + ")",
          members[static_cast<std::size_t>(group_rank)].description};
}

std::uint32_t Group::begin(const Fingerprint& what) {
  const std::uint32_t sequence = next_sequence_++;
  history_[sequence % kHistory] = {sequence, what};
  return sequence;
}

Error Group::hear_refusal(int from, std::uint32_t sequence, std::string reason) {
  std::erase_if(refusals_, [this](const Refusal& one) { return is_past(one.sequence); });
  Refusal refusal{from, sequence, std::move(reason)};
  if (is_past(sequence)) return disagreement(refusal);
  refusals_.push_back(std::move(refusal));
  return {};
}

Error Group::refused_elsewhere() const {
  for (const Refusal& one : refusals_)
    if (is_past(one.sequence))
      if (auto found = disagreement(one)) return found;
  return {};
}

Error Group::disagreement(const Refusal& theirs) const {
  const Started& ours = history_[theirs.sequence % kHistory];
  if (ours.sequence != theirs.sequence || ours.what.collective == Collective::none) return {};
  const std::string here = name_of(rank) + " calls " + describe(ours.what, ours.sequence);
  const std::string there = name_of(theirs.from) + " raised before it began: " + theirs.reason;
  const std::string& blamed = members[static_cast<std::size_t>(theirs.from)].description;
  return {ErrorKind::mismatch, "ranks disagree: " + (rank < theirs.from ? here + ", " + there : there + ", " + here),
          blamed};
}

std::string Group::disagreement(const Header& header, int from) const {
  if (is_point_to_point(header.collective)) return {};
  const Started& ours = history_[header.sequence % kHistory];
  const bool known = next_sequence_ > 0 && ours.sequence == header.sequence && is_past(header.sequence);
  if (!known || ours.what == header.fingerprint()) return {};
  return disagreement(ours.what, header.sequence, header.fingerprint(), header.sequence, from);
}

std::string Group::disagreement(const Fingerprint& ours, std::uint32_t sequence, const Fingerprint& theirs,
                                std::uint32_t its, int from) const {
  const std::string here = name_of(rank) + " calls " + describe(ours, sequence);
  const std::string there = name_of(from) + " calls " + describe(theirs, its);
  // Both ranks write the same sentence.
  return "ranks disagree: " + (rank < from ? here + ", " + there : there + ", " + here);
}

std::string Group::disagreement_about(std::uint32_t sequence) const {
  for (const auto& item : matcher.unexpected()) {
    const Header& header = item.arrival->header;
    if (is_point_to_point(header.collective) || header.sequence != sequence) continue;
    if (auto text = disagreement(header, item.from); !text.empty()) return text;
  }
  for (const auto& [from, header] : statuses_) {
    if (header.sequence != sequence) continue;
    if (auto text = disagreement(header, from); !text.empty()) return text;
  }
  return {};
}

void Group::remember_status(const Header& header, int from) { statuses_[from] = header; }

void Group::heard(const Header& header, int from) {
  if (is_point_to_point(header.collective)) return;
  begun_.resize(members.size());
  begun_[static_cast<std::size_t>(from)] = header.sequence + 1;
}

std::vector<int> Group::unheard(std::uint32_t sequence) const {
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    if (other == rank) continue;
    const auto at = static_cast<std::size_t>(other);
    const bool begun = at < begun_.size() && static_cast<std::int32_t>(begun_[at] - sequence) > 0;
    if (!begun) ranks.push_back(other);
  }
  return ranks;
}

std::string Group::take(int from, std::unique_ptr<Arrival> arrival) {
  Receive* receive = matcher.first(arrival->header, from);
  if (receive == nullptr) {
    matcher.keep(from, std::move(arrival));
    return {};
  }
  matcher.forget(*receive);
  receive->actual_source = from;
  return meet(*receive, std::move(arrival));
}

Receive* Group::expect(const Header& header, int from) {
  if (error || !disagreement(header, from).empty()) return nullptr;
  Receive* receive = matcher.first(header, from);
  if (receive == nullptr || receive->in_place || receive->differs(header) || !receive->takes(header.length))
    return nullptr;
  matcher.forget(*receive);
  receive->actual_source = from;
  receive->link = members[static_cast<std::size_t>(from)].link;
  receive->state = Receive::State::streaming;
  heard(header, from);
  return receive;
}

std::string Group::meet(Receive& receive, std::unique_ptr<Arrival> arrival) {
  const Header& header = arrival->header;
  const int from = receive.actual_source;
  if (receive.differs(header)) {
    const Numbers sent = whole_of(header.dtype, header.count);
    return name_of(from) + " sent " + std::string(paceline::name_of(sent.dtype)) + "[" + std::to_string(sent.count) +
           "] with tag " + std::to_string(header.tag) + ", " + name_of(rank) + " expects " +
           std::string(paceline::name_of(whole_of(receive.dtype, 0).dtype));
  }
  if (!receive.takes(header.length)) {
    if (auto wrong = disagreement(header, from); !wrong.empty()) return wrong;
    return name_of(from) + " sent " + std::to_string(header.length) + " bytes in " +
           describe(header.fingerprint(), header.sequence) + ", " + name_of(rank) + " expects " +
           (receive.up_to ? "at most " : "") + std::to_string(receive.length);
  }
  receive.link = members[static_cast<std::size_t>(from)].link;
  if (header.frame == Frame::offer && !receive.link->reads(*arrival)) {
    receive.state = Receive::State::streaming;
    receive.link->grant(*arrival, receive);
    return {};
  }
  receive.state = Receive::State::here;
  receive.arrival = std::move(arrival);
  if (receive.arrival->header.frame == Frame::eager && !receive.in_place) {
    receive.consume(receive.arrival->payload.data(), receive.length);
    receive.state = Receive::State::done;
    receive.arrival.reset();
  }
  return {};
}

}  // namespace paceline
