#include "link/shm.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "delays/delays.hpp"
#include "memory/remote.hpp"

namespace paceline {
namespace {

// The bytes that follow a header in the ring. A stream has none there: its bytes lie in a bulk slot.
std::size_t record_payload(const Header& header) {
  switch (header.frame) {
    case Frame::eager:
    case Frame::note:
    case Frame::abort:
    case Frame::refusal:
    case Frame::waits:
    case Frame::goodbye: return header.length;
    case Frame::offer: return sizeof(std::uint64_t);
    default: return 0;
  }
}

// Frames that mean the same wherever they come between messages.
bool is_urgent(Frame frame) {
  return frame == Frame::ack || frame == Frame::grant || frame == Frame::abort || frame == Frame::inquiry ||
         frame == Frame::waits;
}

// This bit marks the place of an offer as an offset in the sender's arena. No address has it.
constexpr std::uint64_t kInArena = std::uint64_t{1} << 63;

}  // namespace

Descriptor create_link_memory() { return create_shared_memory("paceline-link", sizeof(LinkMemory)); }

std::shared_ptr<const Mapping> map_link_memory(const Descriptor& memory) {
  return std::make_shared<const Mapping>(memory.get(), sizeof(LinkMemory));
}

ShmLink::ShmLink(int peer, ShmPeer reach, const Arena& own)
    : Link(peer),
      socket_(std::move(reach.socket)),
      mapping_(std::move(reach.memory)),
      memory_(*static_cast<LinkMemory*>(mapping_->data())),
      own_(own),
      theirs_(std::move(reach.arena)),
      side_(reach.side),
      pid_(reach.pid),
      readable_(reach.readable),
      writer_(memory_.ring[side_], memory_.records_read[1 - side_]),
      reader_(memory_.ring[1 - side_], memory_.records_read[side_]) {}

ShmLink::~ShmLink() = default;

bool ShmLink::put(const Header& header, const std::byte* payload, std::size_t size) {
  const bool control = is_urgent(header.frame) || header.frame == Frame::goodbye;
  if (!writer_.write(header, payload, size, control ? 0 : kControlSlots)) return false;
  must_hear(header.frame == Frame::ack     ? Parked::for_everything
            : header.frame == Frame::eager ? Parked::for_news
                                           : Parked::for_room);
  return true;
}

bool ShmLink::put(Message& send) {
  Header header = send.header;
  if (header.length <= kLargestRecord) {
    header.frame = Frame::eager;
    if (!put(header, send.data, header.length)) return false;
    send.done = true;
    return true;
  }
  header.frame = Frame::offer;
  header.id = next_id_;
  const bool in_arena = own_.holds(send.data, header.length);
  const auto address = in_arena ? own_.offset_of(send.data) | kInArena : reinterpret_cast<std::uint64_t>(send.data);
  if (!put(header, reinterpret_cast<const std::byte*>(&address), sizeof address)) return false;
  send.header.id = next_id_++;
  send.offered = true;
  offers_.emplace(send.header.id, &send);
  return true;
}

void ShmLink::post(Message& send) {
  if (lost_) return;
  if (queue_.empty() && put(send)) {
    ring_doorbell();
    return;
  }
  send.queued = true;
  queue_.push_back({&send, {}, {}});
  tell_hunger();
}

void ShmLink::control(const Header& header, std::string_view payload) {
  if (lost_) return;
  if (header.frame == Frame::status) return queue_status(header);
  const auto* bytes = reinterpret_cast<const std::byte*>(payload.data());
  std::deque<Queued>& queue = is_urgent(header.frame) ? urgent_ : queue_;
  if (queue.empty() && put(header, bytes, payload.size())) {
    ring_doorbell();
    return;
  }
  queue.push_back({nullptr, header, {bytes, bytes + payload.size()}});
  tell_hunger();
}

// A peer that does not read for long needs no more than the newest status.
void ShmLink::queue_status(const Header& header) {
  std::erase_if(statuses_, [&](const Header& other) { return other.channel == header.channel; });
  statuses_.push_back(header);
  move_queue();
  if (rings_from_ != kNothing) ring_doorbell();
  tell_hunger();
}

// A side that makes room wakes its peer only if the peer waits for room. A peer that sleeps on a full ring makes none.
void ShmLink::tell_hunger() {
  const bool starved = !lost_ && (!urgent_.empty() || !queue_.empty() || !statuses_.empty() || !streams_out_.empty());
  if (!starved) alerted_ = false;
  if (starved == waits()) return;
  memory_.starved[side_].position.store(starved ? 1 : 0, std::memory_order_relaxed);
  set_waiting(starved);
  if (!starved) return;
  delay(Between::hunger_and_bell);
  must_hear(Parked::for_room);
  ring_doorbell();
}

bool ShmLink::move_queue() {
  bool moved = false;
  for (; !urgent_.empty() && put(urgent_.front()); moved = true) urgent_.pop_front();
  while (!queue_.empty()) {
    Queued& next = queue_.front();
    if (!(next.send != nullptr ? put(*next.send) : put(next))) break;
    if (next.send != nullptr) next.send->queued = false;
    queue_.pop_front();
    moved = true;
  }
  while (!statuses_.empty() && queue_.empty() && writer_.was_read(status_end_) && put(statuses_.front(), nullptr, 0)) {
    statuses_.erase(statuses_.begin());
    status_end_ = writer_.position();
    moved = true;
  }
  return moved;
}

bool ShmLink::move_streams() {
  bool moved = false;
  while (!streams_out_.empty()) {
    if (bulk_written_ - memory_.bulk_read[1 - side_].position.load(std::memory_order_acquire) >= kBulkSlots) break;
    Message& send = *streams_out_.front();
    const std::size_t size = std::min<std::size_t>(kBulkBytes, send.header.length - send.sent);
    Header header = send.header;
    header.frame = Frame::stream;
    header.length = size;
    std::memcpy(memory_.bulk[side_].slots[bulk_written_ % kBulkSlots], send.data + send.sent, size);
    if (!put(header, nullptr, 0)) break;
    ++bulk_written_;
    send.sent += size;
    moved = true;
    streams_out_.pop_front();
    if (send.sent < send.header.length) {
      streams_out_.push_back(&send);
    } else {
      send.done = true;
      offers_.erase(send.header.id);
    }
  }
  return moved;
}

bool ShmLink::poll(Inbox& inbox) {
  bool moved = false;
  if (!lost_ && (waits() || !streams_out_.empty())) {
    moved = move_queue();
    moved |= move_streams();
    tell_hunger();
  }
  Header header;
  bool took = false;
  while (!refused_ && reader_.peek(header)) {
    if (!take_record(header, inbox)) return true;
    took = true;
  }
  if (took) {
    delay(Between::taken_and_room_told);
    // As with the doorbell, either the peer sees the room when it looks around before it sleeps, or this side sees that
    // the peer is starved.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (memory_.starved[1 - side_].position.load(std::memory_order_relaxed) != 0) must_hear(Parked::for_room);
  }
  if (rings_from_ != kNothing) ring_doorbell();
  return moved || took;
}

bool ShmLink::take_record(const Header& header, Inbox& inbox) {
  const std::size_t size = record_payload(header);
  if (!is_sane(header) || size > kLargestRecord) {
    refused_ = true;
    inbox.garbled(peer(), "a garbled message over shared memory");
    return false;
  }
  switch (header.frame) {
    case Frame::ack: {
      reader_.take({});
      if (const auto found = offers_.find(header.id); found != offers_.end()) {
        found->second->done = true;
        offers_.erase(found);
      }
      return true;
    }
    case Frame::grant: {
      reader_.take({});
      const auto found = offers_.find(header.id);
      if (found == offers_.end()) return true;
      if (std::ranges::find(streams_out_, found->second) != streams_out_.end()) {
        refused_ = true;
        inbox.garbled(peer(), "a second grant of one message over shared memory");
        return false;
      }
      streams_out_.push_back(found->second);
      return true;
    }
    case Frame::stream: {
      take_stream(header);
      reader_.take({});
      return true;
    }
    default: break;
  }
  if (header.frame == Frame::eager) {
    if (StreamSink* sink = inbox.expect(peer(), header)) {
      take_into(*sink, size);
      return true;
    }
  }
  auto arrival = inbox.new_arrival();
  arrival->header = header;
  arrival->peer = peer();
  arrival->view = nullptr;
  if (header.frame == Frame::offer) {
    reader_.take(std::as_writable_bytes(std::span(&arrival->address, 1)));
    if ((arrival->address & kInArena) != 0) arrival->view = theirs_.at(arrival->address & ~kInArena, header.length);
  } else {
    arrival->payload.resize(size);
    reader_.take(arrival->payload);
  }
  inbox.deliver(std::move(arrival));
  return true;
}

void ShmLink::take_into(StreamSink& sink, std::size_t size) {
  if (std::byte* window = sink.window(size)) {
    reader_.take({window, size});
    sink.advance(size);
    return;
  }
  std::array<std::byte, kLargestRecord> payload;
  reader_.take(std::span(payload).first(size));
  sink.consume(payload.data(), size);
}

void ShmLink::take_stream(const Header& header) {
  Cursor& read = memory_.bulk_read[side_];
  const std::uint64_t position = read.position.load(std::memory_order_relaxed);
  const std::byte* piece = memory_.bulk[1 - side_].slots[position % kBulkSlots];
  const auto found = streams_in_.find(header.id);
  if (found != streams_in_.end() && header.length <= std::min<std::uint64_t>(kBulkBytes, found->second.remaining)) {
    Stream& stream = found->second;
    StreamSink* sink = stream.sink;
    stream.remaining -= header.length;
    if (stream.remaining == 0) streams_in_.erase(found);
    if (std::byte* window = sink->window(header.length)) {
      std::memcpy(window, piece, header.length);
      sink->advance(header.length);
    } else {
      sink->consume(piece, header.length);
    }
  }
  delay(Between::piece_and_room);
  read.position.store(position + 1, std::memory_order_release);
}

void ShmLink::cancel(Message& send) {
  std::erase_if(queue_, [&](const Queued& queued) { return queued.send == &send; });
  std::erase(streams_out_, &send);
  offers_.erase(send.header.id);
  tell_hunger();
}

void ShmLink::cancel(StreamSink& sink) {
  std::erase_if(streams_in_, [&](const auto& entry) { return entry.second.sink == &sink; });
}

int ShmLink::read(std::uint64_t address, std::byte* to, std::size_t size) {
  return read_remote(pid_, address, to, size);
}

void ShmLink::grant(const Arrival& offer, StreamSink& sink) {
  streams_in_[offer.header.id] = {&sink, offer.header.length};
  delay(Between::offer_and_grant);
  Header header = offer.header;
  header.frame = Frame::grant;
  control(header, {});
}

void ShmLink::on_readable(Inbox& inbox) {
  char bytes[64];
  while (!lost_ && !refused_) {
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == sizeof bytes) continue;
    if (got > 0) return;  // the socket is empty now
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    poll(inbox);  // what the peer wrote before it ended counts
    lost_ = true;
    tell_hunger();
    if (!refused_) inbox.lost(peer(), "");
  }
}

void ShmLink::ring_doorbell() {
  delay(Between::message_and_bell);
  // This fence pairs with that of Sleepers::set_parked, after which the peer looks around: one of the two sides sees
  // what the other has written.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (theirs_.header().parked.load(std::memory_order_relaxed) >= rings_from_) wake();
  rings_from_ = kNothing;
}

void ShmLink::wake() {
  auto& parked = theirs_.header().parked;
  if (parked.load(std::memory_order_relaxed) == Parked::no || parked.exchange(Parked::no) == Parked::no) return;
  delay(Between::awake_and_bell);
  ring_socket();
}

void ShmLink::ring_socket() {
  const char byte = 0;
  (void)::send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ShmLink::flush() {
  if (lost_) return true;
  move_queue();
  tell_hunger();
  if (rings_from_ != kNothing) ring_doorbell();
  if (urgent_.empty() && std::ranges::all_of(queue_, [](const Queued& each) { return each.send != nullptr; }))
    return true;
  // A peer that is idle does not say that it sleeps.
  if (!std::exchange(alerted_, true)) ring_socket();
  return false;
}

}  // namespace paceline
