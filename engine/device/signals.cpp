#include "device/signals.hpp"

#include <cstring>

namespace paceline::device {

Signals::Signals(const Driver& driver, const std::shared_ptr<Arena>& arena, const Group& group,
                 const std::vector<int>& near)
    : driver_(driver), group_(group), rank_(static_cast<std::size_t>(group.rank)), own_(driver, arena, bytes()) {
  std::memset(own_.data(), 0, bytes());
  for (const int rank : near)
    if (rank != group.rank) others_.push_back(static_cast<std::size_t>(rank));
}

std::vector<std::byte*> Signals::find(const std::vector<std::uint64_t>& offsets) const {
  std::vector<std::byte*> found;
  for (const std::size_t rank : others_) {
    const Link* link = group_.members[rank].link;
    const PeerArena* arena = link != nullptr ? link->arena() : nullptr;
    found.push_back(arena != nullptr && offsets[rank] % kPage == 0 ? arena->at(offsets[rank], bytes()) : nullptr);
  }
  return found;
}

void Signals::open(const std::vector<std::byte*>& words) {
  for (std::byte* const memory : words) {
    if (memory == nullptr) throw DriverError("cuMemHostRegister", Result::invalid_value, "memory that is not here");
    theirs_.push_back(std::make_unique<Registered>(driver_, memory, rounded_up(bytes(), kPage)));
  }
}

void Signals::tell(Batch& batch, Kind kind, std::uint32_t call) const {
  for (const auto& words : theirs_) {
    const auto* first = reinterpret_cast<const Word*>(words->data());
    batch.write(words->address_of(first + place(rank_, kind, call)), call);
  }
}

void Signals::await(Batch& batch, Kind kind, std::uint32_t call) const {
  for (const std::size_t from : others_) batch.wait(own_.address_of(&word(from, kind, call)), call);
}

bool Signals::heard(std::size_t from, Kind kind, std::uint32_t call) const {
  return from == rank_ || reached(word(from, kind, call).load(), call);
}

void Signals::release(std::uint32_t call) {
  for (const std::size_t from : others_)
    for (const Kind kind : {Kind::given, Kind::settled, Kind::taken})
      if (!heard(from, kind, call)) word(from, kind, call).store(call);
}

}  // namespace paceline::device
