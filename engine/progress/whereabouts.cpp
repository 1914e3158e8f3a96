#include "progress/whereabouts.hpp"

#include <sys/ioctl.h>

#include <algorithm>

namespace paceline {
namespace {

constexpr std::size_t kLongestLine = 255;  // bytes

bool has_unread(const Link& link) {
  int unread = 0;
  return ::ioctl(link.descriptor(), FIONREAD, &unread) == 0 && unread > 0;
}

}  // namespace

std::string Whereabouts::last_heard(const Group& group, int rank) const {
  const Member& member = group.members[static_cast<std::size_t>(rank)];
  if (member.peer < 0) return {};
  if (const int place = group.segment != nullptr ? group.segment->place_of(rank) : -1; place >= 0) {
    if (const Cell* begun = group.segment->last_begun(place)) {
      const Cell* finished = group.segment->last_finished(place);
      std::string text = describe(begun->what, begun->sequence);
      // A collective of two epochs may have finished the first of them only.
      const bool same = finished != nullptr && finished->sequence == begun->sequence;
      if (finished == nullptr || (same && finished != begun)) return text;
      if (same) return text + ", which it finished";
      return text + ", and finished " + describe(finished->what, finished->sequence);
    }
  }
  return peers_[member.peer].last_operation();
}

Missing Whereabouts::missed(const Group& group, const std::string& who, Clock::time_point since) const {
  Missing missing{group.name_of(who), {}, {}, {}};
  const int handle = peers_.find(who);
  if (handle < 0) return missing;
  const Peer& peer = peers_[handle];
  const int rank = group.rank_of(handle);
  missing.last = rank < 0 ? peer.last_operation() : last_heard(group, rank);
  if (peer.line.empty() || peer.told < since) return missing;
  missing.line = peer.line;
  missing.ago = Clock::now() - peer.told;
  return missing;
}

void Whereabouts::report_wait(const Operation& operation) {
  if (is_point_to_point(operation.what.collective)) return;
  Header header = operation.header();
  header.frame = Frame::status;
  for (const Member& member : operation.group->members)
    if (peers_.reaches(member.peer)) member.link->control(header);
}

void Whereabouts::tell_line(std::string_view line, std::uint64_t last_operation) {
  line = line.substr(0, kLongestLine);
  Header header;
  header.frame = Frame::line;
  header.length = line.size();
  for (Link* link : peers_.tcp_links()) {
    const Peer& peer = peers_[link->peer()];
    if (!peer.lost && (peer.sent_ahead_of == last_operation || has_unread(*link))) link->control(header, line);
  }
}

void Whereabouts::hear_line(Peer& peer, std::span<const std::byte> line) {
  peer.told = Clock::now();
  peer.line.clear();
  for (const std::byte byte : line.first(std::min(line.size(), kLongestLine))) {
    const char letter = static_cast<char>(byte);
    peer.line += letter >= ' ' && letter <= '~' ? letter : '?';
  }
}

}  // namespace paceline
