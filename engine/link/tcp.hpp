// A link over a connected stream socket. A large message is offered, and flows in pieces once the receiver grants it.
// Pieces of several messages are interleaved.
#pragma once

#include <cerrno>
#include <deque>
#include <span>
#include <unordered_map>

#include "link/link.hpp"
#include "link/pace.hpp"
#include "link/piece.hpp"
#include "link/smoothing.hpp"
#include "link/wire_header.hpp"
#include "memory/descriptor.hpp"

namespace paceline {

class TcpLink final : public Link {
 public:
  // All links of an engine may share `scratch`, because nothing stays in it between calls.
  TcpLink(int peer, Descriptor socket, std::span<std::byte> scratch);

  std::string_view name() const override { return "tcp"; }
  std::size_t eager_limit() const override { return kEagerBytes; }
  bool readable() const override { return false; }
  void post(Message& send) override;
  void control(const Header& header, std::string_view payload) override;
  bool poll(Inbox& inbox) override;
  void cancel(Message& send) override;
  void cancel(StreamSink& sink) override;
  int read(std::uint64_t, std::byte*, std::size_t) override { return ENOTSUP; }
  void grant(const Arrival& offer, StreamSink& sink) override;
  std::string condition() const override;
  int descriptor() const override { return socket_.get(); }
  bool wants_write() const override { return !queue_.empty() || !streams_out_.empty(); }
  void on_readable(Inbox& inbox) override;
  void set_pace(double least, double most) override;
  void set_send_rate(double bytes_per_second) override;
  std::uint64_t received() const override;
  std::optional<ClockBounds> clock() const override { return clock_.bounds(); }
  bool flush() override;
  bool lost() const override { return lost_; }
  void hang_up() override;
  void forget_after_fork() override { socket_.reset(); }

  static constexpr std::size_t kEagerBytes = std::size_t{64} << 10;
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // of a stream, and of a message that goes unasked

 private:
  struct Outgoing {
    WireHeader wire;
    const std::byte* data;
    std::size_t size;
    std::size_t written = 0;  // of header and data together
    Message* send = nullptr;  // it becomes done, or streams on, once this frame is out
    std::vector<std::byte> owned{};
  };
  struct Stream {
    StreamSink* sink;
    std::uint64_t remaining;
  };
  enum class Receiving : std::uint8_t { header, payload, stream };

  void enqueue(const Header& header, const std::byte* data, std::size_t size, Message* send);
  bool write_some();
  void tell_time();
  void hear_time(const Header& header);
  ssize_t receive(std::byte* to, std::size_t room);
  void finished(Outgoing& out);
  bool feed(const std::byte* data, std::size_t size, Inbox& inbox);
  bool take_header(Inbox& inbox);
  void end_piece();
  void fail(Inbox& inbox, const std::string& reason);
  bool refuse(Inbox& inbox, const std::string& what);

  Descriptor socket_;
  const std::string ends_;  // "address:port to address:port", kept because a socket that has failed does not tell
  std::span<std::byte> scratch_;
  bool lost_ = false;
  bool refused_ = false;  // what the peer sends is garbled, and not read any more
  Pace pace_;
  Smoothing smoothing_;
  PeerClock clock_;
  std::int64_t came_ns_ = 0;  // when the kernel took in what was received last, CLOCK_REALTIME; 0 where it does not say
  std::uint64_t next_id_ = 1;
  HeaderWriter headers_out_;
  std::deque<Outgoing> queue_;
  std::unordered_map<std::uint64_t, Message*> offers_;
  std::deque<Message*> streams_out_;
  std::unordered_map<std::uint64_t, Stream> streams_in_;

  Receiving receiving_ = Receiving::header;
  HeaderReader headers_in_;
  std::size_t filled_ = 0;  // bytes of the payload that have come
  std::unique_ptr<Arrival> arrival_;
  Piece piece_;
};

}  // namespace paceline
