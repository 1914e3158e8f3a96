#include "coordinator/boards.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace paceline {
namespace {

// The memory begins with the number of ranks that have left it.
using Departed = std::atomic<std::uint64_t>;
constexpr std::size_t kBeforeBoards = kCacheLine;

int machine_of(const Seat& seat) { return seat.machine_of[static_cast<std::size_t>(seat.rank)]; }

}  // namespace

Boards::Boards(LoopHost& loop, const Group& control, const Seat& seat, std::size_t boards)
    : loop_(loop),
      control_(control),
      count_(boards),
      leader_(static_cast<int>(std::ranges::find(seat.machine_of, machine_of(seat)) - seat.machine_of.begin())),
      shape_{.ranks = static_cast<int>(std::ranges::count(seat.machine_of, machine_of(seat)))} {
  if (leader_ != seat.rank || count_ == 0) return;
  own_ = std::make_unique<ArenaMemory>(loop_.arena(), kBeforeBoards + count_ * shape_.bytes());
  std::memset(own_->data(), 0, own_->bytes());
}

std::uint64_t Boards::offset() const { return own_ ? loop_.arena()->offset_of(own_->data()) : 0; }

std::byte* Boards::see(std::uint64_t offset, std::size_t bytes) const {
  if (own_) return loop_.arena()->at(offset);
  const Link* link = control_.members[static_cast<std::size_t>(leader_)].link;
  const PeerArena* arena = link != nullptr ? link->arena() : nullptr;
  return arena != nullptr && offset % kCacheLine == 0 ? arena->at(offset, bytes) : nullptr;
}

std::uint64_t Boards::add(std::size_t bytes) {
  const auto& added = added_.emplace_back(std::make_unique<ArenaMemory>(loop_.arena(), bytes));
  std::memset(added->data(), 0, bytes);
  return loop_.arena()->offset_of(added->data());
}

std::vector<BoardMemory*> Boards::open(std::uint64_t offset) {
  std::vector<BoardMemory*> boards;
  if (count_ == 0) return boards;
  const std::size_t bytes = kBeforeBoards + count_ * shape_.bytes();
  std::byte* const memory = own_ ? own_->data() : see(offset, bytes);
  if (memory == nullptr)
    throw Failure(ErrorKind::invalid, "the board of " + control_.name_of(leader_) + " cannot be seen from here");
  memory_ = {memory, bytes};
  for (std::size_t begin = kBeforeBoards; begin < memory_.size(); begin += shape_.bytes()) {
    opened_.push_back(std::make_unique<SharedBoard>(
        memory_.subspan(begin, shape_.bytes()), shape_,
        BoardGrowth{[this](std::size_t more) { return add(more); },
                    [this](std::uint64_t place, std::size_t more) { return see(place, more); }}));
    boards.push_back(opened_.back().get());
  }
  return boards;
}

// The last rank to leave cannot give back what is another one's, and a rank that closes earlier does not wait for it.
void Boards::leave() {
  if (memory_.empty()) return;
  auto& departed = *reinterpret_cast<Departed*>(memory_.data());
  departed.fetch_add(1);
  memory_ = {};
  if (!own_) return;
  std::vector<std::byte*> blocks{own_->disown()};
  for (const auto& added : added_) blocks.push_back(added->disown());
  loop_.arena()->release_once(std::move(blocks), [&departed, all = static_cast<std::uint64_t>(shape_.ranks)] {
    return departed.load() == all;
  });
  own_.reset();
  added_.clear();
}

}  // namespace paceline
