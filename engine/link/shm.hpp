// A link to a process on the same machine: one ring of records each way in memory that only the two share. The receiver
// reads a large message straight from the sender's memory if the kernel allows that, and otherwise gets it through a
// few slots of the shared memory. A Unix socket wakes a parked peer, and ends when the peer dies.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>

#include "link/link.hpp"
#include "link/ring.hpp"
#include "memory/arena.hpp"

namespace paceline {

inline constexpr std::size_t kBulkSlots = 4;
// Slots of the ring that only acknowledgements, grants, aborts and the goodbye may use: a peer that does not read hears
// them all the same, and an abort of the longest text fits.
inline constexpr std::size_t kControlSlots = 32;
inline constexpr std::size_t kBulkBytes = std::size_t{128} << 10;

struct BulkMemory {
  std::byte slots[kBulkSlots][kBulkBytes];
};

// Index 0 belongs to the side that created the memory, index 1 to the other.
struct LinkMemory {
  Cursor records_read[2];  // how many records of the other side's ring side i has read
  Cursor bulk_read[2];
  Cursor starved[2];                 // 1 while side i finds no room for something that it has to send
  alignas(4096) RingMemory ring[2];  // written by side i
  alignas(4096) BulkMemory bulk[2];
};

Descriptor create_link_memory();
std::shared_ptr<const Mapping> map_link_memory(const Descriptor& memory);

// How to reach a process of this machine: a socket; the pair's memory, and this process's side of it (0 for the process
// that made it); the peer's arena and its process id; and whether each of the two can read the other's memory.
struct ShmPeer {
  Descriptor socket;
  std::shared_ptr<const Mapping> memory;
  PeerArena arena;
  int side = 0;
  pid_t pid = 0;
  bool readable = false;
};

class ShmLink final : public Link {
 public:
  // `own` is this process's arena, which outlives the link.
  ShmLink(int peer, ShmPeer reach, const Arena& own);
  ~ShmLink() override;

  std::string_view name() const override { return "shm"; }
  std::size_t eager_limit() const override { return kLargestRecord; }
  bool readable() const override { return readable_; }
  void post(Message& send) override;
  void control(const Header& header, std::string_view payload) override;
  bool poll(Inbox& inbox) override;
  void cancel(Message& send) override;
  void cancel(StreamSink& sink) override;
  using Link::read;
  int read(std::uint64_t address, std::byte* to, std::size_t size) override;
  void grant(const Arrival& offer, StreamSink& sink) override;
  int descriptor() const override { return socket_.get(); }
  void on_readable(Inbox& inbox) override;
  const PeerArena* arena() const override { return &theirs_; }
  void wake() override;
  bool flush() override;
  bool lost() const override { return lost_; }
  void forget_after_fork() override { socket_.reset(); }

 private:
  struct Queued {
    Message* send;  // null for a frame of the link's own
    Header header;
    std::vector<std::byte> payload;
  };
  struct Stream {
    StreamSink* sink;
    std::uint64_t remaining;
  };

  bool put(const Header& header, const std::byte* payload, std::size_t size);
  bool put(const Queued& frame) { return put(frame.header, frame.payload.data(), frame.payload.size()); }
  bool put(Message& send);
  void must_hear(Parked level) { rings_from_ = std::min(rings_from_, level); }
  void queue_status(const Header& header);
  bool move_queue();
  bool move_streams();
  bool take_record(const Header& header, Inbox& inbox);
  void take_into(StreamSink& sink, std::size_t size);
  void take_stream(const Header& header);
  void tell_hunger();
  void ring_doorbell();
  void ring_socket();

  static constexpr Parked kNothing{~std::uint32_t{0}};

  Descriptor socket_;
  std::shared_ptr<const Mapping> mapping_;
  LinkMemory& memory_;
  const Arena& own_;
  const PeerArena theirs_;
  const int side_;
  const pid_t pid_;
  const bool readable_;
  RingWriter writer_;
  RingReader reader_;
  std::uint64_t next_id_ = 1;
  std::uint64_t bulk_written_ = 0;
  bool lost_ = false;
  bool refused_ = false;          // what the peer sends is garbled, and not read any more
  Parked rings_from_ = kNothing;  // a peer must be woken for what was written if it sleeps for this much at least
  bool alerted_ = false;          // the peer was woken to make room
  std::deque<Queued> urgent_;     // frames that need not stay behind others
  std::deque<Queued> queue_;
  std::vector<Header> statuses_;  // the newest of each channel; one at a time is in the ring
  std::uint64_t status_end_ = 0;  // where the last one that was put there ends
  std::unordered_map<std::uint64_t, Message*> offers_;
  std::deque<Message*> streams_out_;
  std::unordered_map<std::uint64_t, Stream> streams_in_;
};

}  // namespace paceline
