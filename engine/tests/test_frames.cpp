// The parser of frames from a socket, fed with what no honest peer would send.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "link/tcp.hpp"
#include "world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

class Collector final : public Inbox {
 public:
  std::unique_ptr<Arrival> new_arrival() override { return std::make_unique<Arrival>(); }
  void deliver(std::unique_ptr<Arrival> arrival) override { arrivals.push_back(std::move(arrival)); }
  StreamSink* expect(int, const Header&) override { return nullptr; }
  void lost(int, const std::string& reason) override {
    ++losses;
    last_reason = reason;
  }

  std::vector<std::unique_ptr<Arrival>> arrivals;
  int losses = 0;
  std::string last_reason;
};

struct Wired {
  Wired() {
    int pair[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    link = std::make_unique<TcpLink>(0, Descriptor(pair[0]), std::span(scratch));
    stranger = Descriptor(pair[1]);
  }
  bool send(const void* data, std::size_t size) {
    return ::send(stranger.get(), data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }

  static inline std::vector<std::byte> scratch = std::vector<std::byte>(1 << 20);
  std::unique_ptr<TcpLink> link;
  Descriptor stranger;
  Collector inbox;
};

}  // namespace

TEST(a_million_random_frames) {
  std::mt19937_64 random(11);
  const char* wanted = std::getenv("PACELINE_TEST_FRAMES");
  const int frames = wanted != nullptr ? std::atoi(wanted) : 1'000'000;
  auto wired = std::make_unique<Wired>();
  std::uint32_t number = 0;
  for (int i = 0; i < frames; ++i) {
    // Right at first sight, wrong in one of many ways: random fields behind a valid start.
    WireHeader wire{kFrameMagic, number++, {}};
    std::uint64_t words[sizeof(Header) / 8];
    for (auto& word : words) word = random();
    std::memcpy(&wire.header, words, sizeof words);
    if (random() % 4 != 0) wire.header.frame = static_cast<Frame>(random() % 8);
    if (random() % 4 != 0) wire.header.collective = static_cast<Collective>(random() % 11);
    if (random() % 4 != 0) wire.header.dtype = static_cast<DType>(random() % 9);
    if (random() % 4 != 0) wire.header.op = static_cast<Op>(random() % 9);
    if (random() % 2 != 0) wire.header.length = random() % 200;
    if (random() % 16 == 0) wire.magic = static_cast<std::uint32_t>(random());
    const std::size_t cut = random() % 8 == 0 ? random() % sizeof wire : sizeof wire;
    wired->send(&wire, cut);
    wired->link->on_readable(wired->inbox);
    if (wired->inbox.losses > 0) {
      CHECK(wired->inbox.losses == 1);
      wired = std::make_unique<Wired>();
      number = 0;
    }
  }
}

TEST(a_frame_in_single_bytes) {
  Wired wired;
  WireHeader wire{kFrameMagic, 0, {}};
  wire.header.length = 3;
  std::vector<char> message(sizeof wire + 3, 'x');
  std::memcpy(message.data(), &wire, sizeof wire);
  for (const char byte : message) {
    CHECK(wired.inbox.arrivals.empty());
    CHECK(wired.send(&byte, 1));
    wired.link->on_readable(wired.inbox);
  }
  CHECK(wired.inbox.arrivals.size() == 1);
  CHECK(wired.inbox.arrivals[0]->payload.size() == 3);
}

TEST(a_frame_that_is_missing_is_noticed) {
  Wired wired;
  const WireHeader wire{kFrameMagic, 1, {}};
  CHECK(wired.send(&wire, sizeof wire));
  wired.link->on_readable(wired.inbox);
  CHECK(wired.inbox.losses == 1);
  CHECK(wired.inbox.last_reason == "sent a garbled frame");
}

TEST(a_giant_length_allocates_nothing) {
  Wired wired;
  WireHeader wire{kFrameMagic, 0, {}};
  wire.header.length = ~std::uint64_t{0};
  CHECK(wired.send(&wire, sizeof wire));
  wired.link->on_readable(wired.inbox);
  CHECK(wired.inbox.losses == 1);
}

TEST(garbage_in_shared_memory_ends_the_link_only) {
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const auto memory = map_link_memory(create_link_memory());
  const Arena arena(std::size_t{4} << 20);
  ShmLink link(0, {Descriptor(pair[0]), memory, PeerArena(arena), 0, ::getpid(), true}, arena);
  const Descriptor other(pair[1]);
  auto& shared = *static_cast<LinkMemory*>(memory->data());
  Header header;
  header.length = 1 << 20;
  RingWriter writer(shared.ring[1], shared.records_read[0]);
  CHECK(writer.write(header, nullptr, 0));
  Collector inbox;
  link.poll(inbox);
  CHECK(inbox.losses == 1 && inbox.arrivals.empty());
}
