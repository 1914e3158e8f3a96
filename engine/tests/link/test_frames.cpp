// The parser of frames from a socket, fed with what no honest peer would send.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cstring>
#include <random>

#include "link/tcp.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

class Collector final : public Inbox {
 public:
  std::unique_ptr<Arrival> new_arrival() override { return std::make_unique<Arrival>(); }
  void deliver(std::unique_ptr<Arrival> arrival) override { arrivals.push_back(std::move(arrival)); }
  StreamSink* expect(int, const Header&) override { return nullptr; }
  void lost(int, const std::string&) override { ++losses; }
  void garbled(int, const std::string& what) override {
    ++refusals;
    refused = what;
  }

  std::vector<std::unique_ptr<Arrival>> arrivals;
  int losses = 0;
  int refusals = 0;
  std::string refused;
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

Header random_header(std::mt19937_64& random) {
  std::array<std::uint64_t, sizeof(Header) / 8> words;
  for (auto& word : words) word = random();
  return std::bit_cast<Header>(words);
}

bool same(const Header& a, const Header& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST(many_random_frames) {
  std::mt19937_64 random(11);
  constexpr int kFrames = 250'000;
  auto wired = std::make_unique<Wired>();
  HeaderWriter headers;
  for (int i = 0; i < kFrames; ++i) {
    // Right at first sight, wrong in one of many ways: random fields behind a valid start.
    Header header = random_header(random);
    if (random() % 4 != 0) header.frame = static_cast<Frame>(random() % (static_cast<unsigned>(Frame::time) + 1));
    if (random() % 4 != 0) header.collective = static_cast<Collective>(random() % kCollectiveNames.size());
    if (random() % 4 != 0) header.dtype = static_cast<DType>(random() % kDTypeNames.size());
    if (random() % 4 != 0) header.op = static_cast<Op>(random() % 9);
    if (random() % 2 != 0) header.length = random() % 200;
    WireHeader wire = headers.write(header);
    if (random() % 16 == 0) wire.bytes[random() % wire.size] = static_cast<std::byte>(random());
    wired->send(wire.bytes.data(), random() % 8 == 0 ? random() % wire.size : wire.size);
    wired->link->on_readable(wired->inbox);
    if (wired->inbox.refusals > 0) {
      CHECK(wired->inbox.refusals == 1);
      wired = std::make_unique<Wired>();
      headers = {};
    }
  }
}

TEST(headers_that_differ_in_any_of_their_bytes_arrive_as_they_were) {
  std::mt19937_64 random(12);
  HeaderWriter writer;
  HeaderReader reader;
  Header header;
  for (int i = 0; i < 20'000; ++i) {
    const Header other = random_header(random);
    for (std::size_t byte = 0; byte < sizeof header; ++byte)
      if (random() % 4 == 0) reinterpret_cast<char*>(&header)[byte] = reinterpret_cast<const char*>(&other)[byte];
    header.frame = Frame::eager;
    header.collective = Collective::all_reduce;
    header.dtype = DType::float32;
    header.op = Op::sum;
    header.codec = Codec::int8;
    if (random() % 8 == 0) header = {};
    const WireHeader wire = writer.write(header);
    std::span<const std::byte> rest(wire.bytes.data(), wire.size);
    while (!rest.empty()) {
      auto some = rest.first(1 + random() % rest.size());
      rest = rest.subspan(some.size());
      const auto state = reader.read(some);
      CHECK(some.empty());
      CHECK(state == (rest.empty() ? HeaderReader::State::complete : HeaderReader::State::partial));
    }
    CHECK(same(reader.header(), header));
  }
}

TEST(the_next_collective_of_a_kind_has_a_header_of_few_bytes) {
  HeaderWriter writer;
  Header header;
  header.channel = 0x123456789abcdef0;
  header.length = 4096;
  header.count = 1024;
  header.sequence = 41;
  writer.write(header);
  ++header.sequence;
  CHECK(writer.write(header).size == 5);
}

TEST(a_frame_in_single_bytes) {
  Wired wired;
  Header header;
  header.length = 3;
  const WireHeader wire = HeaderWriter().write(header);
  std::vector<std::byte> message(wire.bytes.begin(), wire.bytes.begin() + static_cast<std::ptrdiff_t>(wire.size));
  message.resize(wire.size + header.length);
  for (const std::byte byte : message) {
    CHECK(wired.inbox.arrivals.empty());
    CHECK(wired.send(&byte, 1));
    wired.link->on_readable(wired.inbox);
  }
  CHECK(wired.inbox.arrivals.size() == 1);
  CHECK(wired.inbox.arrivals[0]->payload.size() == 3);
}

TEST(a_frame_that_is_missing_is_noticed) {
  HeaderWriter writer;
  writer.write({});
  const WireHeader wire = writer.write({});
  Wired wired;
  CHECK(wired.send(wire.bytes.data(), wire.size));
  wired.link->on_readable(wired.inbox);
  CHECK(wired.inbox.refusals == 1);
  CHECK(wired.inbox.refused == "a garbled frame");
}

TEST(what_begins_unlike_a_frame_ends_the_link_before_more_of_it_comes) {
  for (const std::size_t wrong : {0, 1, 2}) {
    std::array bytes{WireHeader::kMark, std::byte{0}, std::byte{0x3f}};
    bytes[wrong] = std::byte{0xc0};
    Wired wired;
    CHECK(wired.send(bytes.data(), bytes.size()));
    wired.link->on_readable(wired.inbox);
    CHECK(wired.inbox.refusals == 1);
  }
}

TEST(a_giant_length_allocates_nothing) {
  Wired wired;
  Header header;
  header.length = ~std::uint64_t{0};
  const WireHeader wire = HeaderWriter().write(header);
  CHECK(wired.send(wire.bytes.data(), wire.size));
  wired.link->on_readable(wired.inbox);
  CHECK(wired.inbox.refusals == 1);
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
  CHECK(inbox.refusals == 1 && inbox.arrivals.empty());
}

TEST(a_second_grant_of_one_message_ends_the_link) {
  const std::vector<std::byte> data(std::size_t{4} << 20);
  Message message;
  message.header.length = data.size();
  message.data = data.data();
  Header grant;
  grant.frame = Frame::grant;

  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const auto memory = map_link_memory(create_link_memory());
  const Arena arena(std::size_t{4} << 20);
  ShmLink link(0, {Descriptor(pair[0]), memory, PeerArena(arena), 0, ::getpid(), true}, arena);
  const Descriptor other(pair[1]);
  auto& shared = *static_cast<LinkMemory*>(memory->data());
  link.post(message);
  grant.id = message.header.id;
  RingWriter writer(shared.ring[1], shared.records_read[0]);
  CHECK(writer.write(grant, nullptr, 0) && writer.write(grant, nullptr, 0));
  Collector inbox;
  link.poll(inbox);
  CHECK(inbox.refusals == 1 && inbox.refused == "a second grant of one message over shared memory");

  Wired wired;
  Message sent;
  sent.header.length = data.size();
  sent.data = data.data();
  wired.link->post(sent);
  grant.id = sent.header.id;
  HeaderWriter headers;
  for (int i = 0; i < 2; ++i) {
    const WireHeader wire = headers.write(grant);
    CHECK(wired.send(wire.bytes.data(), wire.size));
  }
  wired.link->on_readable(wired.inbox);
  CHECK(wired.inbox.refusals == 1 && wired.inbox.refused == "a second grant of one message");
}
