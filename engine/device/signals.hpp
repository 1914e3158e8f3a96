// What the streams of ranks that reach each other's memory tell each other, in words of pinned memory.
//
// Each rank has a word for every other rank, kind and call. The other rank's stream writes the number of the call
// there, and this rank's stream waits for it; see Batch. No host takes part, unless the call fails: then this rank
// writes all its words itself, so that its stream goes on. A later call uses a word again only when the one before is
// over here, so no rank can still write an older number then, and what the host has written stays.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/batch.hpp"
#include "device/pinned.hpp"
#include "execute/group.hpp"

namespace paceline::device {

inline constexpr std::uint32_t kCalls = 64;  // of a group that are under way at most

// The context of the device must be current wherever this is made, opened or destroyed.
class Signals {
 public:
  enum class Kind : std::uint8_t {
    given,    // what the rank brings along can be read
    settled,  // what the rank was to combine with other machines has come, and can be read
    taken,    // the rank has read what it needs, and written what it has to
  };

  // near: the ranks of the group on this machine, which tell each other.
  Signals(const Driver& driver, const std::shared_ptr<Arena>& arena, const Group& group, const std::vector<int>& near);
  // Where this rank's words lie in its arena: the others need it to `find` them.
  std::uint64_t offset() const { return own_.offset(); }
  // Streams of other ranks may still write there.
  void retire() { own_.retire(); }
  // Returns the words of each other rank near this one, null if they are not here. offsets: of all ranks of the group.
  // The engine's lock must be held, since it may end the links.
  std::vector<std::byte*> find(const std::vector<std::uint64_t>& offsets) const;
  // Lets the device write to these words. Throws DriverError.
  void open(const std::vector<std::byte*>& words);

  // The stream tells all other ranks of this machine.
  void tell(Batch& batch, Kind kind, std::uint32_t call) const;
  // The stream waits for them.
  void await(Batch& batch, Kind kind, std::uint32_t call) const;
  // Whether the stream of another rank has told this one.
  bool heard(std::size_t from, Kind kind, std::uint32_t call) const;
  // Writes what others have not.
  void release(std::uint32_t call);

 private:
  using Word = std::atomic<std::uint32_t>;
  static_assert(sizeof(Word) == sizeof(std::uint32_t) && Word::is_always_lock_free);
  static constexpr std::size_t kKinds = 3;

  std::size_t bytes() const { return group_.members.size() * kKinds * kCalls * sizeof(Word); }
  static std::size_t place(std::size_t from, Kind kind, std::uint32_t call) {
    return (from * kKinds + static_cast<std::size_t>(kind)) * kCalls + call % kCalls;
  }
  Word& word(std::size_t from, Kind kind, std::uint32_t call) const {
    return reinterpret_cast<Word*>(own_.data())[place(from, kind, call)];
  }

  const Driver& driver_;
  const Group& group_;
  const std::size_t rank_;
  std::vector<std::size_t> others_;  // near, without this one
  Pinned own_;
  std::vector<std::unique_ptr<Registered>> theirs_;  // in the order of `others_`
};

}  // namespace paceline::device
