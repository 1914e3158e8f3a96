#include "shared/shared_all_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "calibration/methods.hpp"
#include "delays/delays.hpp"
#include "execute/group.hpp"
#include "kernel/reduce.hpp"
#include "memory/cache.hpp"
#include "memory/rounding.hpp"

namespace paceline {
namespace {

constexpr std::size_t kGrain = 4096;  // bytes, a page: regions and pieces are multiples of it
constexpr std::uint64_t kClosed = std::uint64_t{1} << (SharedSegment::kProgressBits - 1);  // no piece may be claimed
constexpr auto kLongestPieceWait = std::chrono::milliseconds(100);
// What each rank tells the others, and what the first rank tells all: ranks in containers may see caches of different
// sizes.
struct Offer {
  std::uint64_t source;  // the address of its data; 0 if some rank may not read it
  Method method;
  std::uint32_t first;     // the rounds staged in all epochs before
  std::uint32_t turnover;  // see Caches
};
static_assert(sizeof(Offer) <= sizeof(Cell::small));

}  // namespace

void SharedAllReduce::clear() {
  SharedOperation::clear();
  algorithm = "";
  source = nullptr;
  to = nullptr;
  factor = 1;
  how_ = How::open;
  measures_ = false;
  done_ = rounds_ = staged_ = reduced_ = taken_ = 0;
}

void SharedAllReduce::give(Cell& own) {
  if (factor != 1) {
    kernels().scale(fold.dtype, to, source, bytes / size_of(fold.dtype), factor);
    source = to;
  }
  const bool shared = source == to && segment_->arena().holds(to, bytes);
  own.place = shared ? segment_->arena().offset_of(to) : reinterpret_cast<std::uint64_t>(to) | kOutside;
  const bool readable = segment_->all_readable();
  Offer offer{readable ? reinterpret_cast<std::uint64_t>(source) : 0, {}, 0, 0};
  const auto ranks = static_cast<std::size_t>(segment_->size());
  if (segment_->rank() == 0) {
    const MethodLimits limits{ranks, readable, caches().block()};
    // If this rank's copy is shared, the others' most often are, too, and no method is chosen.
    measures_ = !shared;
    offer.method = measures_ ? group->method_tuner.next(bytes, limits) : foreseen_method(bytes, limits);
    offer.first = segment_->rounds_staged;
    offer.turnover = static_cast<std::uint32_t>(caches().turnover());
  }
  std::memcpy(own.small, &offer, sizeof offer);
  SegmentMemory& memory = segment_->own();
  memory.claimed.value.store(now(0), std::memory_order_relaxed);
  if (segment_->rank() == 0) memory.finished[epoch_ % 2].value.store(now(0), std::memory_order_relaxed);
}

// All ranks see the same cells, so all choose alike.
void SharedAllReduce::choose() {
  const auto ranks = static_cast<std::size_t>(segment_->size());
  inputs_.resize(ranks);
  outputs_.resize(ranks);
  copies_.resize(ranks);
  sources_.resize(ranks);
  results_.resize(ranks);
  bool in_place = true;
  bool readable = true;
  for (int rank = 0; rank < segment_->size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    const std::uint64_t place = segment_->cell(rank, epoch_).place;
    const bool outside = (place & kOutside) != 0;
    copies_[i] = outside ? nullptr : segment_->at(rank, place, bytes);
    if (!outside && copies_[i] == nullptr) {
      refuse(rank);
      return;
    }
    in_place = in_place && !outside;
    Offer offer;
    std::memcpy(&offer, segment_->cell(rank, epoch_).small, sizeof offer);
    sources_[i] = offer.source;
    results_[i] = outside ? place & ~kOutside : offer.source;
    readable = readable && offer.source != 0;
  }
  Offer first;
  std::memcpy(&first, segment_->cell(0, epoch_).small, sizeof first);
  method_ = first.method;
  const std::size_t largest = region(0).size();
  if (in_place) {
    how_ = How::in_place;
    algorithm = "in_place";
    piece_bytes_ = std::clamp(rounded_up(largest / calibration::kPiecesPerRegion, kGrain), calibration::kSmallestPiece,
                              calibration::kLargestPiece);
    all_pieces_ = 0;
    for (int rank = 0; rank < segment_->size(); ++rank) all_pieces_ += pieces(rank);
    return;
  }
  const bool fetches = readable && method_.kind == Method::Kind::fetched;
  how_ = fetches ? How::fetched : How::staged;
  algorithm = fetches ? "fetched" : "staged";
  const std::size_t room = kPipeBytes / (fetches ? ranks - 1 : kPipeRounds * ranks);
  block_bytes_ = std::clamp<std::size_t>(method_.block, kCacheLine, room) / kCacheLine * kCacheLine;
  rounds_ = (largest + block_bytes_ - 1) / block_bytes_;
  const std::size_t turnover = std::min<std::size_t>(first.turnover, kPipeBytes);
  held_ = std::max(turnover / (ranks * block_bytes_), kPipeRounds);
  first_ = first.first;
  if (fetches) return;
  if (segment_->rounds_staged == 0) Arena::populate(segment_->own().pipe, turnover);
  segment_->rounds_staged += static_cast<std::uint32_t>(rounds_);
}

// No region is larger than the first one.
SharedAllReduce::Range SharedAllReduce::region(int rank) const {
  const auto ranks = static_cast<std::size_t>(segment_->size());
  const std::size_t each = rounded_up((bytes + ranks - 1) / ranks, kGrain);
  const std::size_t begin = std::min(bytes, each * static_cast<std::size_t>(rank));
  return {begin, std::min(bytes, begin + each)};
}

SharedOperation::Result SharedAllReduce::work() {
  if (how_ == How::open) {
    // Either this rank sees here that another one has given up, or that one sees all claims of pieces: see `withdraw`.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!stands()) return Result::waits;
    choose();
    if (trouble_) return Result::moved;
    if (measures_) chosen_ = Clock::now();
  }
  if (how_ == How::in_place) return work_in_place();
  const Result result = how_ == How::fetched ? work_fetched() : work_staged();
  if (measures_ && result == Result::complete) group->method_tuner.record(bytes, method_, Clock::now() - chosen_);
  return result;
}

void SharedAllReduce::let_go(const Error& error) {
  SharedOperation::let_go(error);
  const bool shared = source == to && segment_->arena().holds(to, bytes);
  if (shown() && shared) withdraw();
}

// Others may be writing to this rank's buffer. From now on no rank gets another piece, so they have soon done so. What
// a rank that was stopped meanwhile still writes goes to memory that is this rank's no more.
void SharedAllReduce::withdraw() {
  for (int rank = 0; rank < segment_->size(); ++rank)
    segment_->of(rank).claimed.value.fetch_or(kClosed, std::memory_order_acq_rel);
  const auto latest = Clock::now() + kLongestPieceWait;
  while (segment_->others_write(epoch_)) {
    if (Clock::now() >= latest) return segment_->arena().detach(to, bytes);
    std::this_thread::yield();
  }
}

std::vector<int> SharedAllReduce::behind() const {
  std::vector<int> ranks;
  if (how_ == How::in_place && all_finished()) return ranks;
  for (int rank = 0; rank < segment_->size(); ++rank) {
    const bool waits =
        how_ == How::in_place || segment_->of(rank).taken.value.load(std::memory_order_acquire) < now(all_taken());
    if (rank != segment_->rank() && waits) ranks.push_back(rank);
  }
  return ranks;
}

// --- in place

std::size_t SharedAllReduce::pieces(int rank) const { return (region(rank).size() + piece_bytes_ - 1) / piece_bytes_; }

// Claims a piece that no rank has claimed yet: from this rank's region, then from the next ones.
bool SharedAllReduce::claim(int& rank, std::size_t& piece) {
  for (int i = 0; i < segment_->size(); ++i) {
    rank = (segment_->rank() + i) % segment_->size();
    auto& claimed = segment_->of(rank).claimed.value;
    auto seen = claimed.load(std::memory_order_relaxed);
    // A late rank may find that its peers' counters are in the next epoch already.
    while (seen >= now(0) && seen < now(pieces(rank))) {
      if (!claimed.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
        continue;
      piece = seen - now(0);
      return true;
    }
  }
  return false;
}

void SharedAllReduce::combine_piece(int rank, std::size_t piece) {
  const Range whole = region(rank);
  const std::size_t begin = whole.begin + piece * piece_bytes_;
  const std::size_t end = std::min(whole.end, begin + piece_bytes_);
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    outputs_[i] = copies_[i] + begin;
    inputs_[i] = outputs_[i];
  }
  const std::size_t count = (end - begin) / size_of(fold.dtype);
  kernels().reduce_to_all(fold, outputs_.data(), outputs_.size(), inputs_.data(), inputs_.size(), count);
}

SharedOperation::Result SharedAllReduce::work_in_place() {
  int rank = 0;
  std::size_t piece = 0;
  auto& writing = segment_->own().writing.value;
  writing.store(epoch_, std::memory_order_relaxed);
  delay(Between::writing_and_claim);
  const bool claimed = claim(rank, piece);
  if (claimed) combine_piece(rank, piece);
  writing.store(0, std::memory_order_release);
  if (claimed) {
    ++done_;
    return Result::moved;
  }
  auto& finished = segment_->of(0).finished[epoch_ % 2].value;
  if (done_ > 0) {
    delay(Between::piece_and_finished);
    const auto before = finished.fetch_add(done_, std::memory_order_acq_rel);
    const bool last = before + done_ == now(all_pieces_);
    done_ = 0;
    if (last) segment_->wake_others();
  }
  if (!all_finished()) return Result::waits;
  if (segment_->arena().holds(to, bytes)) return Result::complete;
  trouble_ = {ErrorKind::aborted, "another group has failed with memory of the same buffer"};
  return Result::moved;
}

bool SharedAllReduce::all_finished() const {
  return segment_->of(0).finished[epoch_ % 2].value.load(std::memory_order_acquire) == now(all_pieces_);
}

// --- staged

SharedAllReduce::Range SharedAllReduce::block(int rank, std::size_t round) const {
  const Range whole = region(rank);
  const std::size_t begin = std::min(whole.end, whole.begin + round * block_bytes_);
  return {begin, std::min(whole.end, begin + block_bytes_)};
}

// Returns where `holder` keeps its block of `rank`'s region: its copy of it or, in its own region, the result.
std::byte* SharedAllReduce::place(int holder, int rank, std::size_t round) const {
  const auto ranks = static_cast<std::size_t>(segment_->size());
  const std::size_t slot = (first_ + round) % held_ * ranks + static_cast<std::size_t>(rank);
  return segment_->of(holder).pipe + slot * block_bytes_;
}

bool SharedAllReduce::everybody(Counter SegmentMemory::* counter, std::size_t done) const {
  if (done == 0) return true;  // the counters may still be those of the epoch before
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (rank != segment_->rank() && (segment_->of(rank).*counter).value.load(std::memory_order_acquire) < now(done))
      return false;
  return true;
}

void SharedAllReduce::stage() {
  for (int i = 1; i < segment_->size(); ++i) {
    const int rank = (segment_->rank() + i) % segment_->size();
    const Range part = block(rank, staged_);
    if (part.size() > 0) segment_->hand_over(place(segment_->rank(), rank, staged_), source + part.begin, part.size());
  }
  delay(Between::staged_and_counter);
  segment_->own().staged.value.store(now(++staged_), std::memory_order_release);
  segment_->wake_others();
}

void SharedAllReduce::reduce() {
  const Range part = block(segment_->rank(), reduced_);
  const std::size_t pass = caches().pass();
  for (std::size_t at = 0; at < part.size(); at += pass) {
    const std::size_t size = std::min(pass, part.size() - at);
    for (int rank = 0; rank < segment_->size(); ++rank) {
      inputs_[static_cast<std::size_t>(rank)] =
          rank == segment_->rank() ? source + part.begin + at : place(rank, segment_->rank(), reduced_) + at;
    }
    std::byte* const own = to + part.begin + at;
    std::byte* const shown = place(segment_->rank(), segment_->rank(), reduced_) + at;
    if (segment_->streams()) {
      kernels().reduce(fold, own, inputs_.data(), inputs_.size(), size / size_of(fold.dtype));
      segment_->hand_over(shown, own, size);
    } else {
      std::byte* const both[] = {own, shown};
      kernels().reduce_to_all(fold, both, 2, inputs_.data(), inputs_.size(), size / size_of(fold.dtype));
    }
  }
  segment_->own().reduced.value.store(now(++reduced_), std::memory_order_release);
  segment_->wake_others();
  for (int rank = 0; rank < segment_->size(); ++rank) segment_->follow(rank);
}

void SharedAllReduce::take() {
  for (int i = 1; i < segment_->size(); ++i) {
    const int rank = (segment_->rank() + i) % segment_->size();
    const Range part = block(rank, taken_);
    if (part.size() > 0) kernels().copy(to + part.begin, place(rank, rank, taken_), part.size());
  }
  segment_->own().taken.value.store(now(++taken_), std::memory_order_release);
  segment_->wake_others();
}

// Steps that other ranks wait for come first.
SharedOperation::Result SharedAllReduce::work_staged() {
  const auto free_before = [this](std::size_t round) { return round < held_ ? 0 : round - held_ + 1; };
  if (reduced_ < staged_ && everybody(&SegmentMemory::staged, reduced_ + 1) &&
      everybody(&SegmentMemory::taken, free_before(reduced_))) {
    reduce();
  } else if (staged_ < rounds_ && everybody(&SegmentMemory::reduced, free_before(staged_))) {
    stage();
  } else if (taken_ < reduced_ && everybody(&SegmentMemory::reduced, taken_ + 1)) {
    take();
    if (taken_ == rounds_) return Result::complete;
  } else {
    return Result::waits;
  }
  return Result::moved;
}

// --- fetched

// Returns false if the other rank is gone.
bool SharedAllReduce::fetch(int rank, const std::vector<std::uint64_t>& from, const Range& part, std::byte* into) {
  if (part.size() == 0) return true;
  return read_from(rank, from[static_cast<std::size_t>(rank)] + part.begin, into, part.size());
}

// It does all of this rank's region first, then the others', beginning with that of the next rank.
SharedOperation::Result SharedAllReduce::work_fetched() {
  const int size = segment_->size();
  const int me = segment_->rank();
  if (reduced_ < rounds_) {
    const Range part = block(me, reduced_);
    inputs_[static_cast<std::size_t>(me)] = source + part.begin;
    std::byte* theirs = segment_->own().pipe;
    for (int i = 1; i < size; ++i, theirs += block_bytes_) {
      const int rank = (me + i) % size;
      if (!fetch(rank, sources_, part, theirs)) return Result::moved;
      inputs_[static_cast<std::size_t>(rank)] = theirs;
    }
    kernels().reduce(fold, to + part.begin, inputs_.data(), inputs_.size(), part.size() / size_of(fold.dtype));
    segment_->own().reduced.value.store(now(++reduced_), std::memory_order_release);
    segment_->wake_others();
    return Result::moved;
  }
  if (taken_ < all_taken()) {
    const std::size_t round = taken_ % rounds_;
    const int rank = (me + 1 + static_cast<int>(taken_ / rounds_)) % size;
    if (segment_->of(rank).reduced.value.load(std::memory_order_acquire) < now(round + 1)) return Result::waits;
    const Range part = block(rank, round);
    if (!fetch(rank, results_, part, to + part.begin)) return Result::moved;
    segment_->own().taken.value.store(now(++taken_), std::memory_order_release);
    if (taken_ == all_taken()) segment_->wake_others();
    return Result::moved;
  }
  return everybody(&SegmentMemory::taken, taken_) ? Result::complete : Result::waits;
}

}  // namespace paceline
