// A link carries messages to one peer. It knows nothing of collectives. Its callers hold the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "link/header.hpp"
#include "link/peer_clock.hpp"

namespace paceline {

class Link;
class PeerArena;

// A message on its way out. Its memory and its data stay in place until `done`.
struct Message {
  Header header;
  const std::byte* data = nullptr;
  Link* link = nullptr;
  std::size_t sent = 0;
  bool unasked = false;  // the receiver has room for it, and need not be asked first
  bool queued = false;   // the link holds a pointer to it
  bool offered = false;  // the peer has been told and may read the data
  bool done = false;
};

// A message that has arrived: its payload if it is eager, or the place where the payload waits if it is an offer.
struct Arrival {
  Header header;
  int peer = -1;  // engine-wide handle
  std::uint64_t address = 0;
  const std::byte* view = nullptr;  // the data of an offer, if this process sees the memory in which they lie
  std::vector<std::byte> payload;
};

// Takes in the pieces of a granted message.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Returns memory for the next piece of at most `size` bytes, or null if pieces must be handed to `consume`.
  virtual std::byte* window(std::size_t size) = 0;
  // `size` bytes were written to the window.
  virtual void advance(std::size_t size) = 0;
  // Takes the next piece, in order.
  virtual void consume(const std::byte* data, std::size_t size) = 0;
};

// What a link tells its owner.
class Inbox {
 public:
  virtual ~Inbox() = default;
  virtual std::unique_ptr<Arrival> new_arrival() = 0;
  virtual void deliver(std::unique_ptr<Arrival> arrival) = 0;
  // Returns where the payload of an eager message goes as it comes in, or null if it is to be delivered as a whole.
  virtual StreamSink* expect(int peer, const Header& header) = 0;
  // The connection has ended; `reason` is empty where the peer hung up.
  virtual void lost(int peer, const std::string& reason) = 0;
  // The peer sent `what`, as no peer should. Nothing more is read from it, but it can still be told.
  virtual void garbled(int peer, const std::string& what) = 0;
};

class Link {
 public:
  explicit Link(int peer) : peer_(peer) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int peer() const { return peer_; }
  virtual std::string_view name() const = 0;
  // Payloads up to this size travel with their header; larger ones are offered.
  virtual std::size_t eager_limit() const = 0;
  // Whether the receiver can read an offered payload where it lies. Otherwise the receiver grants it a stream.
  virtual bool readable() const = 0;
  bool reads(const Arrival& offer) const { return offer.view != nullptr || readable(); }

  virtual void post(Message& send) = 0;
  virtual void control(const Header& header, std::string_view payload = {}) = 0;
  // Takes in what has arrived by another way than a socket, and moves on what is queued. Returns true if anything
  // moved.
  virtual bool poll(Inbox& inbox) = 0;
  // Forgets a send or a sink that its owner gives up.
  virtual void cancel(Message& send) = 0;
  virtual void cancel(StreamSink& sink) = 0;

  // Copies memory of the peer, if that is `readable`. Returns 0 or an errno.
  virtual int read(std::uint64_t address, std::byte* to, std::size_t size) = 0;
  // Copies a part of an offered message that this rank `reads`. `acknowledge` then tells the peer that it was read.
  int read(const Arrival& offer, std::size_t offset, std::byte* to, std::size_t size);
  void acknowledge(const Arrival& offer);
  // Asks for an offered message, on a link that streams.
  virtual void grant(const Arrival& offer, StreamSink& sink) = 0;

  // Sets what this link may bring in, in bytes per second, if all links in use at once bring in the same: `least` in
  // the group that uses most links, `most` in the group that uses fewest. If that is little, the link keeps the peer
  // from sending more ahead than a switch on the way can hold.
  virtual void set_pace(double /*least*/, double /*most*/) {}
  // Sets what this link sends, in bytes per second, while all links in use at once send what their plan gives them;
  // infinite if that is unknown. A link that loses packets where they cannot queue then sends no faster.
  virtual void set_send_rate(double /*bytes_per_second*/) {}

  // Bytes that the kernel has taken in from the peer so far, read or not; 0 where it does not count them.
  virtual std::uint64_t received() const { return 0; }

  // How far the peer's clock is ahead; nothing where that is unknown, and of a peer on the same machine.
  virtual std::optional<ClockBounds> clock() const { return std::nullopt; }
  // Describes a link over a network: its two addresses, and for how long nothing has come. Empty for other links.
  virtual std::string condition() const { return {}; }
  virtual int descriptor() const = 0;
  // Whether the socket is full, so that the link must be polled once the socket is writable.
  virtual bool wants_write() const { return false; }
  // The descriptor is readable, or writable if the link wants that.
  virtual void on_readable(Inbox& inbox) = 0;
  // The peer's arena, if this process sees it, else null.
  virtual const PeerArena* arena() const { return nullptr; }
  // Rings at a peer that sleeps. The caller has written what the peer must see, and has passed a full fence since.
  virtual void wake() {}
  // Tries to send everything of its own that is queued, and wakes a peer that makes no room. Returns true once it is
  // sent. A queue of messages is for their operations to wait for.
  virtual bool flush() = 0;
  // Whether the conversation has ended: the peer is gone.
  virtual bool lost() const = 0;
  // Counts this link in `links` while something is queued in it that has to wait for room.
  void count_waiting_in(std::size_t& links) { waiting_links_ = &links; }
  // Ends the conversation in good order. What was written still reaches the peer.
  virtual void hang_up() {}
  virtual void forget_after_fork() = 0;

 protected:
  void set_waiting(bool waits) {
    if (waits == waits_) return;
    waits_ = waits;
    if (waiting_links_ != nullptr) *waiting_links_ += waits ? 1 : std::size_t(-1);
  }
  bool waits() const { return waits_; }

 private:
  int peer_;
  bool waits_ = false;
  std::size_t* waiting_links_ = nullptr;
};

}  // namespace paceline
