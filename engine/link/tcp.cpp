#include "link/tcp.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "delays/delays.hpp"
#include "link/tcp_count.hpp"
#include "link/tcp_ends.hpp"

namespace paceline {
namespace {

std::int64_t ns_of(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

std::int64_t realtime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return ns_of(now);
}

}  // namespace

TcpLink::TcpLink(int peer, Descriptor socket, std::span<std::byte> scratch)
    : Link(peer), socket_(std::move(socket)), ends_(ends_of(socket_.get())), scratch_(scratch) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  const int one = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
}

void TcpLink::enqueue(const Header& header, const std::byte* data, std::size_t size, Message* send) {
  queue_.push_back({headers_out_.write(header), data, size, 0, send});
}

// Tells the peer the time now and then, when nothing is queued before it.
void TcpLink::tell_time() {
  const auto now = std::chrono::steady_clock::now();
  if (!clock_.due(now) || lost_ || refused_ || wants_write()) return;
  Header header;
  header.frame = Frame::time;
  header.count = static_cast<std::uint64_t>(clock_.tell(now));
  header.id = static_cast<std::uint64_t>(realtime_ns());
  enqueue(header, nullptr, 0, nullptr);
  write_some();
}

// The peer needs an answer, since one that only receives has nothing else to say when.
void TcpLink::hear_time(const Header& header) {
  const std::int64_t came = came_ns_ != 0 ? came_ns_ : realtime_ns();
  clock_.hear(static_cast<std::int64_t>(header.id), came, static_cast<std::int64_t>(header.count),
              std::chrono::steady_clock::now());
  tell_time();
}

void TcpLink::post(Message& send) {
  if (lost_) return;
  tell_time();
  Header header = send.header;
  if (header.length <= (send.unasked ? kPieceBytes : kEagerBytes)) {
    header.frame = Frame::eager;
    send.queued = true;
    enqueue(header, send.data, header.length, &send);
  } else {
    header.frame = Frame::offer;
    header.id = send.header.id = next_id_++;
    send.offered = true;
    offers_.emplace(header.id, &send);
    enqueue(header, nullptr, 0, nullptr);
  }
  write_some();
}

void TcpLink::control(const Header& header, std::string_view payload) {
  if (lost_) return;
  enqueue(header, nullptr, payload.size(), nullptr);
  const auto* bytes = reinterpret_cast<const std::byte*>(payload.data());
  queue_.back().owned.assign(bytes, bytes + payload.size());
  queue_.back().data = queue_.back().owned.data();
  write_some();
}

bool TcpLink::write_some() {
  bool moved = false;
  while (!lost_) {
    if (queue_.empty()) {
      if (streams_out_.empty()) break;
      Message& send = *streams_out_.front();
      streams_out_.pop_front();
      Header header = send.header;
      header.frame = Frame::stream;
      header.length = std::min<std::uint64_t>(kPieceBytes, send.header.length - send.sent);
      send.queued = true;
      enqueue(header, send.data + send.sent, header.length, &send);
    }
    Outgoing& out = queue_.front();
    iovec parts[2];
    int used = 0;
    if (out.written < out.wire.size) parts[used++] = {&out.wire.bytes[out.written], out.wire.size - out.written};
    const std::size_t data_written = out.written > out.wire.size ? out.written - out.wire.size : 0;
    if (data_written < out.size)
      parts[used++] = {const_cast<std::byte*>(out.data) + data_written, out.size - data_written};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(used);
    const ssize_t wrote = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      if (refused_ && errno != EAGAIN && errno != EWOULDBLOCK) lost_ = true;
      break;  // the socket is full or broken: reading, if it goes on, will tell which
    }
    delay(Between::bytes_and_more_bytes);
    moved = true;
    out.written += static_cast<std::size_t>(wrote);
    if (out.written < out.wire.size + out.size) continue;
    smoothing_.sent(socket_.get(), out.size);
    finished(out);
    queue_.pop_front();
  }
  set_waiting(!lost_ && wants_write());
  return moved;
}

void TcpLink::finished(Outgoing& out) {
  if (out.send == nullptr) return;
  Message& send = *out.send;
  send.queued = false;
  send.sent += out.size;
  if (send.sent < send.header.length) {
    streams_out_.push_back(&send);
    return;
  }
  send.done = true;
  if (send.offered) offers_.erase(send.header.id);
}

void TcpLink::set_pace(double least, double most) {
  if (!lost_) pace_.set(socket_.get(), least, most);
}

void TcpLink::set_send_rate(double bytes_per_second) {
  if (!lost_) smoothing_.plan(socket_.get(), bytes_per_second);
}

std::uint64_t TcpLink::received() const { return tcp_bytes_received(socket_.get()); }

bool TcpLink::poll(Inbox&) { return wants_write() && write_some(); }

// To close a socket with unread bytes resets the connection, and drops what the kernel has yet to send. So only bytes
// that the peer's kernel has acknowledged count as sent.
bool TcpLink::flush() {
  write_some();
  int unsent = 0;
  const bool known = ::ioctl(socket_.get(), SIOCOUTQ, &unsent) == 0;
  return lost_ || (!wants_write() && (!known || unsent == 0));
}

void TcpLink::fail(Inbox& inbox, const std::string& reason) {
  if (lost_) return;
  lost_ = true;
  set_waiting(false);
  inbox.lost(peer(), reason);
}

// Returns false, as there is nothing more to read.
bool TcpLink::refuse(Inbox& inbox, const std::string& what) {
  refused_ = true;
  inbox.garbled(peer(), what);
  return false;
}

// Notes when the kernel took in the last of these bytes: a rank that computes reads them much later.
ssize_t TcpLink::receive(std::byte* to, std::size_t room) {
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(timespec))];
  iovec part{to, room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  came_ns_ = 0;
  if (got <= 0) return got;
  for (const cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr;
       one = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(one)))
    if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_TIMESTAMPNS) {
      timespec came{};
      std::memcpy(&came, CMSG_DATA(one), sizeof came);
      came_ns_ = ns_of(came);
    }
  return got;
}

void TcpLink::on_readable(Inbox& inbox) {
  while (!lost_ && !refused_) {
    std::byte* to = scratch_.data();
    std::size_t room = scratch_.size();
    // A large piece that is not to be combined goes straight to its place, past the scratch memory.
    std::byte* const window = receiving_ == Receiving::stream ? piece_.window() : nullptr;
    if (window != nullptr) {
      to = window;
      room = piece_.remaining();
    }
    const ssize_t got = window != nullptr ? ::recv(socket_.get(), to, room, MSG_DONTWAIT) : receive(to, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return fail(inbox, got == 0 ? "" : std::strerror(errno));
    const auto size = static_cast<std::size_t>(got);
    if (window != nullptr) {
      piece_.arrived(size);
      if (piece_.remaining() == 0) end_piece();
    } else if (!feed(to, size, inbox)) {
      return;
    }
    if (size < room) return;
  }
}

bool TcpLink::feed(const std::byte* data, std::size_t size, Inbox& inbox) {
  while (size > 0) {
    std::size_t used = 0;
    if (receiving_ == Receiving::header) {
      std::span rest(data, size);
      const auto state = headers_in_.read(rest);
      if (state == HeaderReader::State::garbled) return refuse(inbox, "a garbled frame");
      used = size - rest.size();
      if (state == HeaderReader::State::complete && !take_header(inbox)) return false;
    } else if (receiving_ == Receiving::payload) {
      used = std::min(size, arrival_->payload.size() - filled_);
      std::memcpy(arrival_->payload.data() + filled_, data, used);
      filled_ += used;
      if (filled_ == arrival_->payload.size()) {
        receiving_ = Receiving::header;
        inbox.deliver(std::move(arrival_));
      }
    } else {
      used = std::min(size, piece_.remaining());
      piece_.take(data, used);
      if (piece_.remaining() == 0) end_piece();
    }
    data += used;
    size -= used;
  }
  return true;
}

bool TcpLink::take_header(Inbox& inbox) {
  const Header& header = headers_in_.header();
  switch (header.frame) {
    case Frame::grant:
      if (const auto found = offers_.find(header.id); found != offers_.end()) {
        Message& send = *found->second;
        if (send.queued || std::ranges::find(streams_out_, &send) != streams_out_.end())
          return refuse(inbox, "a second grant of one message");
        streams_out_.push_back(&send);
        write_some();
      }
      return true;
    case Frame::stream: {
      const auto found = streams_in_.find(header.id);
      const bool wanted = found != streams_in_.end();
      if (header.length > kPieceBytes || (wanted && header.length > found->second.remaining))
        return refuse(inbox, "more than it had offered");
      if (wanted) found->second.remaining -= header.length;
      piece_.begin(wanted ? found->second.sink : nullptr, header.length);
      if (header.length > 0) receiving_ = Receiving::stream;
      return true;
    }
    case Frame::eager:
      if (header.length > 0 && header.length <= kPieceBytes) {
        if (StreamSink* const sink = inbox.expect(peer(), header)) {
          piece_.begin(sink, header.length);
          receiving_ = Receiving::stream;
          return true;
        }
      }
      [[fallthrough]];
    case Frame::abort:
    case Frame::offer:
    case Frame::status:
    case Frame::note:
    case Frame::line:
    case Frame::question:
    case Frame::answer:
    case Frame::refusal:
    case Frame::inquiry:
    case Frame::waits:
    case Frame::goodbye: {
      const bool carries = header.frame != Frame::offer && header.frame != Frame::status;
      if (carries && header.length > kPieceBytes) return refuse(inbox, "a frame longer than allowed");
      arrival_ = inbox.new_arrival();
      arrival_->header = header;
      arrival_->peer = peer();
      arrival_->payload.resize(carries ? header.length : 0);
      if (!arrival_->payload.empty()) {
        receiving_ = Receiving::payload;
        filled_ = 0;
      } else {
        inbox.deliver(std::move(arrival_));
      }
      return true;
    }
    case Frame::time: hear_time(header); return true;
    case Frame::hello:
    case Frame::ack: return true;
  }
  return true;
}

void TcpLink::end_piece() {
  const auto found = streams_in_.find(headers_in_.header().id);
  if (found != streams_in_.end() && found->second.remaining == 0) streams_in_.erase(found);
  receiving_ = Receiving::header;
}

void TcpLink::cancel(Message& send) {
  for (Outgoing& out : queue_) {
    if (out.send != &send) continue;
    // Half of the frame may be on the wire, so the rest must follow, from a copy.
    out.owned.assign(out.data, out.data + out.size);
    out.data = out.owned.data();
    out.send = nullptr;
  }
  std::erase(streams_out_, &send);
  if (send.offered) offers_.erase(send.header.id);
  set_waiting(!lost_ && wants_write());
}

void TcpLink::cancel(StreamSink& sink) {
  std::erase_if(streams_in_, [&](const auto& entry) { return entry.second.sink == &sink; });
  piece_.forget(sink);
}

std::string TcpLink::condition() const { return ends_.empty() ? ends_ : ends_ + silence_of(socket_.get()); }

void TcpLink::hang_up() { ::shutdown(socket_.get(), SHUT_WR); }

void TcpLink::grant(const Arrival& offer, StreamSink& sink) {
  streams_in_[offer.header.id] = {&sink, offer.header.length};
  Header header = offer.header;
  header.frame = Frame::grant;
  control(header, {});
}

}  // namespace paceline
