#include "memory/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <system_error>

#include "memory/rounding.hpp"

namespace paceline {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSmallest = kHugePage * 2;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
constexpr int kCollapse = 25;       // MADV_COLLAPSE, which they lack, too

std::size_t limited(auto resource) {
  rlimit limit{};
  const bool known = ::getrlimit(resource, &limit) == 0;
  return known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : std::numeric_limits<std::size_t>::max();
}

// Address space and sparse files cost nothing, unless the process runs under limits on them.
std::size_t default_size() {
  const auto memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t kShare = 32;  // of the limit, for one arena: the arenas of peers are mapped, too
  return std::min({memory, limited(RLIMIT_AS) / kShare, limited(RLIMIT_FSIZE) / kHugePage * kHugePage});
}

// Small blocks lie in the first part of the arena, so that no huge page is touched because of them.
std::size_t small_part(std::size_t size) { return std::min(size / 2, std::size_t{1} << 30) / kHugePage * kHugePage; }

}  // namespace

Arena::Arena(std::size_t bytes)
    : fd_(create_shared_memory("paceline-arena",
                               std::max(kSmallest, rounded_up(bytes > 0 ? bytes : default_size(), kHugePage)))),
      mapping_(Mapping::whole(fd_.get())) {
  const std::size_t middle = small_part(size());
  ::madvise(base() + middle, size() - middle, MADV_HUGEPAGE);
  small_free_[rounded_up(sizeof(ArenaHeader), kPage)] = middle - rounded_up(sizeof(ArenaHeader), kPage);
  large_free_[middle] = size() - middle;
}

std::byte* Arena::allocate(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  const std::size_t step = large ? kHugePage : bytes >= kPage ? kPage : kCacheLine;
  if (bytes > size() || origin_.inherited()) throw std::bad_alloc();
  const std::size_t wanted = rounded_up(std::max<std::size_t>(bytes, 1), step);
  const std::lock_guard lock(mutex_);
  release_abandoned();
  Blocks& free = large ? large_free_ : small_free_;
  for (auto block = free.begin(); block != free.end(); ++block) {
    const auto [offset, available] = *block;
    const std::size_t begin = rounded_up(offset, step);
    if (begin + wanted > offset + available) continue;
    free.erase(block);
    if (begin > offset) free[offset] = begin - offset;
    if (offset + available > begin + wanted) free[begin + wanted] = offset + available - begin - wanted;
    used_[begin] = {wanted, false};
    return base() + begin;
  }
  throw std::bad_alloc();
}

bool Arena::use_huge_pages(const std::byte* memory, std::size_t bytes) const {
  const std::size_t begin = rounded_up(offset_of(memory), kHugePage);
  const std::size_t end = (offset_of(memory) + bytes) / kHugePage * kHugePage;
  for (std::size_t offset = begin; offset < end; offset += kHugePage) {
    (void)*static_cast<volatile std::byte*>(at(offset));  // the kernel does not collapse untouched pages
    if (::madvise(at(offset), kHugePage, kCollapse) != 0) return false;
  }
  return true;
}

void Arena::populate(std::byte* memory, std::size_t bytes) { ::madvise(memory, bytes, kPopulateWrite); }

void Arena::release(std::byte* memory) {
  if (origin_.inherited()) return;
  const std::lock_guard lock(mutex_);
  take_back(memory);
}

void Arena::take_back(const std::byte* memory) {
  const auto found = used_.find(offset_of(memory));
  if (found == used_.end() || found->second.retired) return;
  const auto [offset, used] = *found;
  used_.erase(found);
  const bool large = used.bytes >= kHugePage;
  if (large) {
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(used.bytes));
  }
  put_back(large ? large_free_ : small_free_, offset, used.bytes);
}

void Arena::release_once(std::vector<std::byte*> blocks, std::function<bool()> abandoned) {
  if (origin_.inherited()) return;
  const std::lock_guard lock(mutex_);
  left_behind_.push_back({std::move(blocks), std::move(abandoned)});
}

void Arena::release_abandoned() {
  std::erase_if(left_behind_, [this](const LeftBehind& one) {
    if (!one.abandoned()) return false;
    for (const std::byte* block : one.blocks) take_back(block);
    return true;
  });
}

void Arena::put_back(Blocks& free, std::size_t offset, std::size_t bytes) {
  auto next = free.lower_bound(offset);
  if (next != free.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free[offset] = bytes;
}

void Arena::retire(const std::byte* inside) {
  if (origin_.inherited()) return;
  const std::lock_guard lock(mutex_);
  auto after = used_.upper_bound(offset_of(inside));
  if (after == used_.begin()) return;
  --after;
  if (offset_of(inside) < after->first + after->second.bytes) after->second.retired = true;
}

// A private mapping copies a page when it is first written to: the kernel is told to, or, before Linux 5.14, each page
// is written to, with what it holds.
void Arena::detach(std::byte* memory, std::size_t bytes) {
  retire(memory);
  const std::size_t begin = offset_of(memory) / kPage * kPage;
  const std::size_t end = rounded_up(offset_of(memory) + bytes, kPage);
  void* const mapped = ::mmap(at(begin), end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                              fd_.get(), static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return;
  if (::madvise(mapped, end - begin, kPopulateWrite) != 0)
    for (std::size_t page = begin; page < end; page += kPage)
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at(page))).fetch_or(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  detached_[begin] = std::max(detached_[begin], end - begin);
  any_detached_.store(true, std::memory_order_relaxed);
}

bool Arena::touches_detached(const std::byte* begin, std::size_t bytes) const {
  const std::size_t first = offset_of(begin);
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      detached_, [&](const auto& block) { return block.first < first + bytes && first < block.first + block.second; });
}

std::size_t Arena::allocated() const {
  if (origin_.inherited()) return 0;
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [offset, used] : used_) bytes += used.bytes;
  return bytes;
}

PeerArena::PeerArena(const Descriptor& fd)
    : mapping_(Mapping::whole(fd.get())), base_(static_cast<std::byte*>(mapping_.data())), size_(mapping_.size()) {
  if (size_ < sizeof(ArenaHeader)) throw std::system_error(EINVAL, std::generic_category(), "a peer's arena");
}

}  // namespace paceline
