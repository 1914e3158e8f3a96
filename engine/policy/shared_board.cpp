#include "policy/shared_board.hpp"

#include <algorithm>
#include <bit>

#include "delays/delays.hpp"
#include "failure/error.hpp"
#include "policy/entry.hpp"

namespace paceline {

namespace {

constexpr std::size_t kLine = 64;
static_assert(BoardMemory::kDoublings * sizeof(std::uint64_t) <= kLine);

std::size_t stride_of(const BoardShape& shape) { return (static_cast<std::size_t>(shape.ranks) + 1 + 7) / 8 * 8; }

}  // namespace

std::size_t BoardShape::bytes() const {
  return 2 * kLine + static_cast<std::size_t>(ranks) * kLine + slots * stride_of(*this) * 8 + std::size_t{words} * 16;
}

SharedBoard::SharedBoard(std::span<std::byte> memory, const BoardShape& shape, BoardGrowth growth)
    : shape_(shape), stride_(stride_of(shape)), growth_(std::move(growth)) {
  if (shape.ranks < 1 || shape.slots < 1 || !std::has_single_bit(shape.words) || shape.words / 4 < kLongestEntry)
    throw Failure(ErrorKind::invalid, "a board needs a rank, a slot and a power of two of words, at least " +
                                          std::to_string(std::bit_ceil(4 * kLongestEntry)));
  if (memory.size() < shape.bytes() || reinterpret_cast<std::uintptr_t>(memory.data()) % kLine != 0)
    throw Failure(ErrorKind::invalid, "a board of this shape needs " + std::to_string(shape.bytes()) +
                                          " bytes on a cache line, got " + std::to_string(memory.size()));
  std::byte* at = memory.data();
  tail_ = reinterpret_cast<Atom*>(at);
  wanted_ = tail_ + 1;
  at += kLine;
  places_ = reinterpret_cast<Atom*>(at);
  at += kLine;
  lines_ = reinterpret_cast<Line*>(at);
  at += static_cast<std::size_t>(shape.ranks) * kLine;
  slots_ = reinterpret_cast<Atom*>(at);
  at += shape.slots * stride_ * 8;
  cells_ = reinterpret_cast<Cell*>(at);
}

// What the entry in the log stands for is there before it: ranks that read the entry see the place.
void SharedBoard::grow(std::uint32_t slots) {
  std::uint32_t there = shape_.slots;
  for (unsigned i = 0; i < kDoublings && there < slots; ++i, there *= 2)
    if (places_[i].load() == 0) places_[i].store(growth_.allocate(there * stride_ * 8));
}

SharedBoard::Atom* SharedBoard::added(std::uint32_t slot) const {
  const auto part = static_cast<unsigned>(std::bit_width(slot / shape_.slots)) - 1;
  const std::uint32_t first = shape_.slots << part;
  if (added_[part] == nullptr) {
    std::byte* const seen = growth_.see(places_[part].load(), first * stride_ * 8);
    if (seen == nullptr) throw Failure(ErrorKind::invalid, "the larger board of this machine cannot be seen from here");
    added_[part] = reinterpret_cast<Atom*>(seen);
  }
  return added_[part] + (slot - first) * stride_;
}

// Marks, claims and words of joining are sequentially consistent: if a rank stores its own and then looks at those of
// the others, it sees theirs, or they see its own.
void SharedBoard::mark(std::uint32_t slot, int rank, std::uint64_t word) {
  row(slot)[1 + static_cast<std::size_t>(rank)].store(word);
  delay(Between::mark_and_check);
}

std::uint64_t SharedBoard::marked(std::uint32_t slot, int rank) const {
  return row(slot)[1 + static_cast<std::size_t>(rank)].load();
}

bool SharedBoard::claim(std::uint32_t slot, std::uint32_t round) {
  Atom& claimed = *row(slot);
  std::uint64_t last = claimed.load();
  while (static_cast<std::int32_t>(round - static_cast<std::uint32_t>(last)) > 0)
    if (claimed.compare_exchange_weak(last, round)) {
      delay(Between::claim_and_verdict);
      return true;
    }
  return false;
}

void SharedBoard::join(int rank, std::uint64_t word) { lines_[rank].joined.store(word); }

std::uint64_t SharedBoard::joined(int rank) const { return lines_[rank].joined.load(); }

// Both sides store something and then look at something else: only fences keep these two in order.
void SharedBoard::want(bool begins) {
  wanted_->fetch_add(begins ? 1 : ~std::uint64_t{0});
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool SharedBoard::wanted() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return wanted_->load(std::memory_order_relaxed) > 0;
}

bool SharedBoard::has_room(std::uint64_t end) {
  // The difference is signed, because `end` may be old, and other ranks may have read beyond it.
  const auto fits = [&] { return static_cast<std::int64_t>(end - all_have_read_) <= std::int64_t{shape_.words}; };
  if (fits()) return true;
  const std::span<const Line> lines(lines_, static_cast<std::size_t>(shape_.ranks));
  all_have_read_ = lines[0].position.load();
  for (const Line& line : lines) all_have_read_ = std::min(all_have_read_, line.position.load());
  return fits();
}

bool SharedBoard::append(std::span<const std::uint64_t> entry) {
  std::uint64_t begin = tail_->load(std::memory_order_relaxed);
  do {
    if (!has_room(begin + entry.size())) return false;
  } while (!tail_->compare_exchange_weak(begin, begin + entry.size()));
  delay(Between::reservation_and_stamp);
  // The first word is stored last, so that a rank that sees it sees all words.
  for (std::size_t i = entry.size(); i-- > 0;) {
    Cell& to = cell(begin + i);
    to.word.store(entry[i], std::memory_order_relaxed);
    to.stamp.store(begin + i + 1, std::memory_order_release);
  }
  // As with `wanted`: this rank sees that the tail has moved on, or a rank that appends later and then looks around
  // sees the entry.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  overtaken_ = tail_->load(std::memory_order_relaxed) != begin + entry.size();
  return true;
}

bool SharedBoard::read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) {
  const Cell& first = cell(position);
  if (first.stamp.load(std::memory_order_acquire) != position + 1) return false;
  const std::uint64_t head = first.word.load(std::memory_order_relaxed);
  entry.resize(head_of(head).words);
  entry[0] = head;
  for (std::size_t i = 1; i < entry.size(); ++i) entry[i] = cell(position + i).word.load(std::memory_order_relaxed);
  position += entry.size();
  lines_[rank].position.store(position, std::memory_order_release);
  return true;
}

}  // namespace paceline
