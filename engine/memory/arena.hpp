// Memory that the other processes of this machine see: one sparse memfd per process, mapped by each of its peers.
//
// Nothing has a name in the file system, and only touched pages exist, so an arena may be as large as the machine's
// memory and vanishes with its last holder, however that ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/cache.hpp"
#include "memory/descriptor.hpp"
#include "memory/origin.hpp"

namespace paceline {

// Whether a process sleeps, and what its doorbell must be rung for. Each wake-up takes a CPU from another process.
enum class Parked : std::uint32_t {
  no,
  for_room,        // everything but acknowledgements and small messages: those lie in a link's ring till a caller looks
  for_news,        // everything but acknowledgements
  for_everything,  // acknowledgements, too: it has nothing else to wait for
};

// The start of every arena.
struct ArenaHeader {
  alignas(kCacheLine) std::atomic<Parked> parked;
};

class Arena {
 public:
  // `bytes` is the most that it can hold; 0 stands for as much as the machine has memory.
  explicit Arena(std::size_t bytes = 0);

  int descriptor() const { return fd_.get(); }
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base()); }

  // Returns memory that begins on a cache line, or on a multiple of `kHugePage` if it is at least as large. It may have
  // been used before and is not cleared. Throws std::bad_alloc, and does so in every forked child, which must not share
  // its parent's bookkeeping.
  std::byte* allocate(std::size_t bytes);
  // Puts huge pages where they fit into these bytes of a block, for all processes that map them, even if the system
  // gives shared memory no huge pages by itself. Returns false if the kernel refuses, because it is older than
  // Linux 6.1 or has no huge pages left: small pages then serve.
  bool use_huge_pages(const std::byte* memory, std::size_t bytes) const;
  // Fetches the pages of these bytes of a block all at once, on Linux 5.14 and later. To fetch them one by one, when
  // they are first written to, takes several times as long.
  static void populate(std::byte* memory, std::size_t bytes);
  // Gives memory back; large blocks go back to the system at once. In a forked child it does nothing.
  void release(std::byte* memory);
  // Gives these blocks back once peers no longer look at them: once `abandoned` returns true, which is asked whenever
  // memory is allocated, and may read them. In a forked child it does nothing.
  void release_once(std::vector<std::byte*> blocks, std::function<bool()> abandoned);
  // Gives memory up, but keeps its place for ever: a peer that gave up in the middle may still write to it. In a forked
  // child it does nothing.
  void retire(const std::byte* inside);

  // Makes the pages of a block that these bytes lie in private to this process, with what they hold, and retires the
  // block: what peers write there from now on is never seen.
  void detach(std::byte* memory, std::size_t bytes);

  // Whether peers see this memory.
  bool holds(const void* memory, std::size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(memory);
    return begin >= base() && begin < base() + size() && bytes <= static_cast<std::size_t>(base() + size() - begin) &&
           (!any_detached_.load(std::memory_order_relaxed) || !touches_detached(begin, bytes));
  }
  std::uint64_t offset_of(const void* memory) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - base());
  }
  std::byte* at(std::uint64_t offset) const { return base() + offset; }
  std::size_t size() const { return mapping_.size(); }
  // The bytes of all blocks; 0 in a forked child.
  std::size_t allocated() const;

 private:
  using Blocks = std::map<std::size_t, std::size_t>;  // offset to bytes

  std::byte* base() const { return static_cast<std::byte*>(mapping_.data()); }
  bool touches_detached(const std::byte* begin, std::size_t bytes) const;
  // The caller of these holds the lock.
  void release_abandoned();
  void take_back(const std::byte* memory);
  void put_back(Blocks& free, std::size_t offset, std::size_t bytes);

  Descriptor fd_;
  Mapping mapping_;
  const Origin origin_;
  mutable std::mutex mutex_;
  Blocks small_free_;
  Blocks large_free_;
  struct Used {
    std::size_t bytes;
    bool retired;
  };
  std::map<std::size_t, Used> used_;
  struct LeftBehind {
    std::vector<std::byte*> blocks;
    std::function<bool()> abandoned;
  };
  std::vector<LeftBehind> left_behind_;
  Blocks detached_;
  std::atomic<bool> any_detached_ = false;
};

// Memory of an arena that is given back with its last owner.
class ArenaMemory {
 public:
  ArenaMemory(std::shared_ptr<Arena> arena, std::size_t bytes)
      : arena_(std::move(arena)), data_(arena_->allocate(bytes)), bytes_(bytes) {}
  ~ArenaMemory() {
    if (data_ != nullptr) arena_->release(data_);
  }
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Somebody else gives it back.
  std::byte* disown() { return std::exchange(data_, nullptr); }

 private:
  std::shared_ptr<Arena> arena_;
  std::byte* data_;
  std::size_t bytes_;
};

// The arena of another rank of this machine.
class PeerArena {
 public:
  explicit PeerArena(const Descriptor& fd);
  // For the arena of a rank in this very process; `here` must outlive this object.
  explicit PeerArena(const Arena& here) : base_(here.at(0)), size_(here.size()) {}

  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }
  // Returns null if these bytes do not lie within the arena.
  std::byte* at(std::uint64_t offset, std::size_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) return nullptr;
    return base_ + offset;
  }

 private:
  Mapping mapping_;
  std::byte* base_;
  std::size_t size_;
};

}  // namespace paceline
