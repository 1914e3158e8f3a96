#include "coordinator/correspondence.hpp"

#include <algorithm>
#include <utility>

namespace paceline {

void Correspondence::tell(int to, Kind kind, std::span<const std::byte> message) {
  const Member& member = control_.members[static_cast<std::size_t>(to)];
  if (!loop_.reaches(member)) return;
  Header header;
  header.frame = Frame::note;
  header.channel = control_.channel;
  do {
    const auto part = message.first(std::min(message.size(), kMost));
    message = message.subspan(part.size());
    header.length = part.size();
    header.tag = message.empty() ? kind : more_follows;
    member.link->control(header, {reinterpret_cast<const char*>(part.data()), part.size()});
  } while (!message.empty());
}

bool Correspondence::receive(const Heard& heard) {
  if (control_.notes.empty()) return false;
  for (const Note& note : std::exchange(control_.notes, {})) {
    const auto kind = static_cast<Kind>(note.tag);
    if (kind == closing || kind == ask || kind == have || kind == await) {
      heard(note.from, kind, note.message);
      continue;
    }
    auto& partial = partial_[static_cast<std::size_t>(note.from)];
    partial.insert(partial.end(), note.message.begin(), note.message.end());
    if (kind == more_follows) continue;
    heard(note.from, policy, partial);
    partial.clear();
  }
  return true;
}

}  // namespace paceline
