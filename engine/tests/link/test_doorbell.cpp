// Who sleeps is woken for what it waits for, and for nothing else.
#include <sys/socket.h>

#include "link/shm.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

class Counter final : public Inbox {
 public:
  std::unique_ptr<Arrival> new_arrival() override { return std::make_unique<Arrival>(); }
  void deliver(std::unique_ptr<Arrival> arrival) override { last = std::move(*arrival), ++arrivals; }
  StreamSink* expect(int, const Header&) override { return nullptr; }
  void lost(int, const std::string&) override { CHECK(false); }
  void garbled(int, const std::string&) override { CHECK(false); }

  Arrival last;
  int arrivals = 0;
};

struct Side {
  Arena arena{std::size_t{1} << 22};
  Counter inbox;
  std::unique_ptr<ShmLink> link;
  int socket = -1;

  void sleep(Parked parked) { arena.header().parked.store(parked); }
  bool rung() {
    char byte = 0;
    return ::recv(socket, &byte, 1, MSG_DONTWAIT) == 1;
  }
};

struct Pair {
  Side sides[2];

  explicit Pair(bool readable = true) {
    int pair[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const auto memory = map_link_memory(create_link_memory());
    for (int side = 0; side < 2; ++side) {
      sides[side].socket = pair[side];
      sides[side].link = std::make_unique<ShmLink>(
          1 - side,
          ShmPeer{Descriptor(pair[side]), memory, PeerArena(sides[1 - side].arena), side, ::getpid(), readable},
          sides[side].arena);
    }
  }
};

Message message(const std::vector<std::byte>& data) {
  Message send;
  send.header.length = data.size();
  send.data = data.data();
  return send;
}

}  // namespace

TEST(a_message_wakes_who_sleeps) {
  Pair pair;
  auto& [from, to] = pair.sides;
  const std::vector<std::byte> data(8);
  Message first = message(data);
  from.link->post(first);
  CHECK(first.done && !to.rung());
  for (const Parked parked : {Parked::for_news, Parked::for_everything}) {
    to.sleep(parked);
    Message next = message(data);
    from.link->post(next);
    CHECK(to.rung());
    // It is awake now, and needs no second bell.
    Message last = message(data);
    from.link->post(last);
    CHECK(!to.rung());
  }
}

TEST(an_acknowledgement_wakes_who_waits_for_nothing_else) {
  Pair pair;
  auto& [from, to] = pair.sides;
  const std::vector<std::byte> data(kLargestRecord + 1);
  const auto offer_and_read = [&](Parked parked) {
    Message send = message(data);
    from.link->post(send);
    CHECK(send.offered && !send.done);
    from.sleep(parked);
    CHECK(to.link->poll(to.inbox));
    CHECK(!from.rung());  // for the room that it made
    to.link->acknowledge(to.inbox.last);
    const bool rung = from.rung();
    CHECK(from.link->poll(from.inbox) && send.done);
    return rung;
  };
  CHECK(!offer_and_read(Parked::for_news));
  CHECK(offer_and_read(Parked::for_everything));
}

TEST(room_wakes_who_waits_for_it) {
  Pair pair;
  auto& [from, to] = pair.sides;
  const std::vector<std::byte> data(kLargestRecord);
  std::vector<Message> sends(8, message(data));
  for (Message& send : sends) from.link->post(send);
  CHECK(sends.front().done && !sends.back().done);
  int arrived = 0;
  while (arrived < 8) {
    from.sleep(Parked::for_news);
    CHECK(to.link->poll(to.inbox));
    arrived = to.inbox.arrivals;
    CHECK(from.rung() == (arrived < 8));
    from.link->poll(from.inbox);
  }
  CHECK(sends.back().done);
}

TEST(acknowledgements_find_room_behind_messages_that_nobody_reads) {
  Pair pair;
  auto& [from, to] = pair.sides;
  const std::vector<std::byte> data(kLargestRecord + 1);
  Message offer = message(data);
  from.link->post(offer);
  CHECK(to.link->poll(to.inbox));
  const std::vector<std::byte> small(8);
  std::vector<Message> sends(300, message(small));
  for (Message& send : sends) to.link->post(send);
  CHECK(!sends.back().done);
  to.link->acknowledge(to.inbox.last);
  CHECK(from.link->poll(from.inbox) && offer.done);
}

TEST(a_peer_that_is_awake_and_does_not_read_is_woken_for_a_last_word) {
  Pair pair;
  auto& [from, to] = pair.sides;
  Header header;
  header.frame = Frame::abort;
  const std::string reason(1000, 'x');
  header.length = reason.size();
  for (int i = 0; i < 100; ++i) from.link->control(header, reason);
  CHECK(!to.rung());
  CHECK(!from.link->flush() && to.rung());
  while (!from.link->flush()) {
    CHECK(to.link->poll(to.inbox));
    CHECK(!to.rung() || to.inbox.arrivals < 100);
  }
  to.link->poll(to.inbox);
  CHECK(to.inbox.arrivals == 100);
}

TEST(a_peer_that_does_not_read_gets_one_status_and_then_the_newest) {
  Pair pair;
  auto& [from, to] = pair.sides;
  Header header;
  header.frame = Frame::status;
  for (header.sequence = 1; header.sequence <= 1000; ++header.sequence) from.link->control(header, {});
  const std::vector<std::byte> data(kLargestRecord);
  Message send = message(data);
  from.link->post(send);
  CHECK(send.done);
  CHECK(to.link->poll(to.inbox) && to.inbox.arrivals == 2);
  CHECK(from.link->poll(from.inbox) && to.link->poll(to.inbox));
  CHECK(to.inbox.arrivals == 3 && to.inbox.last.header.sequence == 1000);
  CHECK(!from.link->poll(from.inbox) && !to.link->poll(to.inbox));
}

TEST(a_stream_that_waits_for_its_reader_is_no_work) {
  class Sink final : public StreamSink {
   public:
    std::byte* window(std::size_t) override { return nullptr; }
    void advance(std::size_t) override {}
    void consume(const std::byte*, std::size_t size) override { taken += size; }
    std::size_t taken = 0;
  };
  Pair pair(false);
  auto& [from, to] = pair.sides;
  const std::vector<std::byte> data(2 * kBulkSlots * kBulkBytes);
  Message send = message(data);
  from.link->post(send);
  CHECK(to.link->poll(to.inbox));
  Sink sink;
  to.link->grant(to.inbox.last, sink);
  CHECK(from.link->poll(from.inbox));
  while (from.link->poll(from.inbox)) CHECK(sink.taken == 0);
  CHECK(!send.done);
  while (!send.done) {
    CHECK(to.link->poll(to.inbox));
    from.link->poll(from.inbox);
  }
}
