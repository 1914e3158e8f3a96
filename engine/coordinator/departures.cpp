#include "coordinator/departures.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline {

void Departures::tell(std::uint64_t ended, const Error& why) {
  const std::string reason = why ? encoded(why) : std::string();
  std::vector<std::byte> message(std::min(sizeof ended + reason.size(), Correspondence::kMost));
  std::memcpy(message.data(), &ended, sizeof ended);
  std::memcpy(message.data() + sizeof ended, reason.data(), message.size() - sizeof ended);
  for (int rank = 0; rank < control_.size(); ++rank)
    if (rank != control_.rank) correspondence_.tell(rank, Correspondence::closing, message);
}

void Departures::receive(int from, std::span<const std::byte> message) {
  Departure departure;
  if (message.size() < sizeof departure.ended) return;
  std::memcpy(&departure.ended, message.data(), sizeof departure.ended);
  departure.why = decoded(message.subspan(sizeof departure.ended));
  if (!departure.why)
    departure.why = {ErrorKind::aborted, control_.name_of(from) + " has closed its coordinator, or has left",
                     control_.members[static_cast<std::size_t>(from)].description};
  departures_.push_back(std::move(departure));
}

const Error* Departures::needed_after(std::uint64_t ended) const {
  const auto found = std::ranges::find_if(departures_, [&](const auto& left) { return left.ended <= ended; });
  return found == departures_.end() ? nullptr : &found->why;
}

}  // namespace paceline
