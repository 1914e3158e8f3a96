// A link carries messages to one peer. It knows nothing of collectives; whoever uses it holds the engine's lock.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "link/header.hpp"

namespace paceline {

class Link;
class PeerArena;

// A message on its way out. Its memory and its data stay in place until `done`.
struct Message {
  Header header;
  const std::byte* data = nullptr;
  Link* link = nullptr;
  std::size_t sent = 0;
  bool unasked = false;  // the receiver has room for it: it need not be asked first
  bool queued = false;   // the link holds a pointer to it
  bool offered = false;  // the peer has been told and may read the data
  bool done = false;
};

// A message that has arrived: its payload (eager), or the place where it waits (offer).
struct Arrival {
  Header header;
  int peer = -1;  // engine-wide handle
  std::uint64_t address = 0;
  const std::byte* view = nullptr;  // an offer whose data lies in memory that this process sees, too
  std::vector<std::byte> payload;
};

// Where the pieces of a granted message go.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Memory for the next piece of at most `size` bytes, or null if the pieces are to be handed to `consume`.
  virtual std::byte* window(std::size_t size) = 0;
  virtual void advance(std::size_t size) = 0;                         // `size` bytes were written to the window
  virtual void consume(const std::byte* data, std::size_t size) = 0;  // a piece, in order
};

// What a link tells its owner.
class Inbox {
 public:
  virtual ~Inbox() = default;
  virtual std::unique_ptr<Arrival> new_arrival() = 0;
  virtual void deliver(std::unique_ptr<Arrival> arrival) = 0;
  // Where the payload of an eager message goes as it comes in; null: it is to be delivered once it is here.
  virtual StreamSink* expect(int peer, const Header& header) = 0;
  virtual void lost(int peer, const std::string& reason) = 0;
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
  // Whether the receiver can read what is offered from where it lies; otherwise it grants it a stream.
  virtual bool readable() const = 0;
  bool reads(const Arrival& offer) const { return offer.view != nullptr || readable(); }

  virtual void post(Message& send) = 0;
  virtual void control(const Header& header, std::string_view payload = {}) = 0;
  // Takes in what has arrived, but from a socket, and moves on what is queued. True if anything moved.
  virtual bool poll(Inbox& inbox) = 0;
  // Forgets a send or a sink that its owner gives up.
  virtual void cancel(Message& send) = 0;
  virtual void cancel(StreamSink& sink) = 0;

  // Where `readable`: copies memory of the peer; returns 0 or an errno.
  virtual int read(std::uint64_t address, std::byte* to, std::size_t size) = 0;
  // Copies a part of an offered message that `reads`. Then says that it was read.
  int read(const Arrival& offer, std::size_t offset, std::byte* to, std::size_t size);
  void acknowledge(const Arrival& offer);
  // Streaming links: asks for an offered message.
  virtual void grant(const Arrival& offer, StreamSink& sink) = 0;

  // What this link may bring in, bytes per second, when all that are in use at once bring in as much: in the group that
  // uses most of them, and in the one that uses fewest. Where that is little it keeps the peer from sending more ahead
  // than a switch on the way holds for it.
  virtual void set_pace(double /*least*/, double /*most*/) {}

  // Over a network: between which addresses it is, and since when nothing has come; else empty.
  virtual std::string condition() const { return {}; }
  virtual int descriptor() const = 0;
  virtual bool wants_write() const { return false; }  // a socket is full: to be polled once it is writable
  virtual void on_readable(Inbox& inbox) = 0;         // the descriptor is readable (or writable, where wanted)
  // The peer's arena, if this process sees it.
  virtual const PeerArena* arena() const { return nullptr; }
  // Rings at a peer that sleeps. What it is to see was written, and a full fence passed, before.
  virtual void wake() {}
  // Tries to get everything queued out of the door; true once it is.
  virtual bool flush() = 0;
  // Ends the conversation in good order; what was written still reaches the peer.
  virtual void hang_up() {}
  virtual void forget_after_fork() = 0;

 private:
  int peer_;
};

}  // namespace paceline
