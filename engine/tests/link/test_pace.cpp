// Links to other machines take in no more ahead than a switch holds, whatever groups use them: by the room that the
// kernel has for what comes before it is read.
#include <limits>

#include "link/tcp.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

int room(int socket) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  CHECK(::getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, &size) == 0);
  return bytes;
}

}  // namespace

TEST(a_paced_link_takes_little_ahead) {
  std::vector<std::byte> scratch(1 << 16);
  struct Paces {
    double least;
    double most;
  };
  const auto taken_ahead = [&](std::initializer_list<Paces> paces) {
    const auto [socket, other] = tcp_pair();
    const Descriptor peer(other);
    TcpLink link(0, Descriptor(socket), scratch);
    for (const auto& [least, most] : paces) link.set_pace(least, most);
    return room(socket);
  };
  const int usual = taken_ahead({});
  const int narrow = taken_ahead({{2e6, 2e6}});
  CHECK(narrow < usual && narrow >= 16 << 10 && narrow < 64 << 10);
  CHECK(taken_ahead({{1, 1}}) >= 16 << 10);
  CHECK(taken_ahead({{1e12, 1e12}}) == usual);
  // 56 kB would be near to the window that peers begin with: such streams lose what short packets overtake.
  CHECK(taken_ahead({{8e6, 8e6}}) == usual);
  CHECK(taken_ahead({{1e12, 1e12}, {2e6, 2e6}}) < usual);
  // What one group has to bring in on its own takes no queue on a short way, and a long window on a long one.
  CHECK(taken_ahead({{2e6, 16e6}}) < 64 << 10);
  CHECK(taken_ahead({{2e6, 1e15}}) == usual);
}

TEST(groups_do_not_spoil_each_others_streams) {
  const auto [socket, other] = tcp_pair();
  const Descriptor peer(other);
  Engine engine(std::make_shared<Arena>(std::size_t{1} << 20), {}, "rank 0");
  const std::vector<int> members{-1, engine.add_tcp_peer(Descriptor(socket), "rank 1")};
  std::uint64_t channel = 0;
  const auto add = [&](double pace) {
    auto group = engine.add_group(++channel, 0, members, std::chrono::seconds(1), plans_for(2, false));
    engine.set_pace(*group, pace, {kUnknown, kUnknown});
    return group;
  };
  const auto pair = add(4e6);
  const int alone = room(socket);
  const auto world = add(2e6);
  const int together = room(socket);
  CHECK(together < alone);
  // Wherever a shorter round trip has been seen meanwhile, there is less room than there was.
  add(4e6);
  add(kUnknown);
  CHECK(room(socket) <= together);
  engine.set_pace(*pair, 8e6, {kUnknown, kUnknown});
  CHECK(room(socket) <= together);
  engine.remove_group(*world);
  CHECK(room(socket) > together && room(socket) <= alone);
  CHECK(failure_of([&] { engine.set_pace(*pair, 8e6, {kUnknown}); }).kind == ErrorKind::invalid);
  engine.close();
}
