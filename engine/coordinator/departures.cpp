#include "coordinator/departures.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline {

void Departures::tell(std::uint64_t ended, const std::string& why) {
  std::vector<std::byte> message(std::min(sizeof ended + why.size(), Correspondence::kMost));
  std::memcpy(message.data(), &ended, sizeof ended);
  std::memcpy(message.data() + sizeof ended, why.data(), message.size() - sizeof ended);
  for (int rank = 0; rank < control_.size(); ++rank)
    if (rank != control_.rank) correspondence_.tell(rank, Correspondence::closing, message);
}

void Departures::hear(int from, std::span<const std::byte> message) {
  Departure departure;
  if (message.size() < sizeof departure.ended) return;
  std::memcpy(&departure.ended, message.data(), sizeof departure.ended);
  const auto why = message.subspan(sizeof departure.ended);
  departure.why.assign(reinterpret_cast<const char*>(why.data()), why.size());
  if (why.empty()) departure.why = control_.name_of(from) + " has closed its coordinator, or has left";
  departures_.push_back(std::move(departure));
}

const std::string* Departures::needed_after(std::uint64_t ended) const {
  const auto found = std::ranges::find_if(departures_, [&](const auto& left) { return left.ended <= ended; });
  return found == departures_.end() ? nullptr : &found->why;
}

}  // namespace paceline
