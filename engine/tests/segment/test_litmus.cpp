// What the protocols in shared memory need of the memory model, as the small tests of its literature (J. Alglave, L.
// Maranget, M. Tautschnig, "Herding Cats", TOPLAS 2014), on the very objects that ranks share. Each has an outcome that
// must never be seen. Compilers can bring about all of them, ARM's hardware too, x86's only those of SB.
#include <sys/socket.h>

#include <array>
#include <thread>

#include "progress/backoff.hpp"
#include "segment/segment.hpp"
#include "tests/sweep.hpp"
#include "tests/world.hpp"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr std::uint64_t kRounds = sweep(20'000, 2'000, 2'000);
constexpr std::size_t kBytes = std::size_t{64} << 20;

// Two ranks in one process, by what they share.
struct Pair {
  std::array<int, 2> sockets = socket_pair();
  std::shared_ptr<const Mapping> memory = map_link_memory(create_link_memory());
  std::array<Arena, 2> arenas{Arena(kBytes), Arena(kBytes)};
  std::array<ShmLink, 2> links{ShmLink(0, reach(0), arenas[0]), ShmLink(0, reach(1), arenas[1])};
  std::array<SharedSegment, 2> segments{SharedSegment(arenas[0], 0, {0, 1}), SharedSegment(arenas[1], 1, {0, 1})};

  Pair() {
    for (std::size_t me = 0; me < 2; ++me)
      CHECK(segments[me].learn(static_cast<int>(1 - me), links[me], segments[1 - me].offset()));
  }
  ~Pair() {
    for (SharedSegment& segment : segments) segment.depart();
  }

  // Whether the other one has rung at this rank since it was last asked.
  bool rang_at(std::size_t me) const {
    char bytes[8];
    return ::recv(links[me].descriptor(), bytes, sizeof bytes, MSG_DONTWAIT) > 0;
  }

 private:
  static std::array<int, 2> socket_pair() {
    int pair[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    return {pair[0], pair[1]};
  }
  ShmPeer reach(std::size_t me) const {
    return {Descriptor(sockets[me]), memory, PeerArena(arenas[1 - me]), static_cast<int>(me), ::getpid(), true};
  }
};

// Where two threads meet, and leave within a few cache misses of each other.
class Start {
 public:
  void meet() {
    const std::uint64_t all = (here_.fetch_add(1) / 2 + 1) * 2;
    for (unsigned looks = 0; here_.load() < all; ++looks) {
      if (looks < 1000) {
        relax_cpu();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  std::atomic<std::uint64_t> here_{0};
};

// In each round `body(me, round)` on both sides at once, then `after(round)` on one.
template <typename Body, typename After>
void race(Body&& body, After&& after) {
  Start start;
  const auto side = [&](std::size_t me) {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      start.meet();
      for (std::uint64_t late = round * (me * 5 + 3) % 32; late > 0; --late) relax_cpu();
      body(me, round);
      start.meet();
      if (me == 0) after(round);
    }
  };
  std::thread other(side, 1);
  side(0);
  other.join();
}

}  // namespace

// MP: whoever sees that a rank has begun an epoch sees its cell and its slot for this epoch.
TEST(message_passing) {
  Pair pair;
  race(
      [&](std::size_t me, std::uint64_t epoch) {
        const int other = static_cast<int>(1 - me);
        SharedSegment& segment = pair.segments[me];
        Cell& own = segment.cell(static_cast<int>(me), epoch);
        own.what.count = epoch * 2 + me;
        std::memcpy(own.small, &epoch, sizeof epoch);
        std::byte* slot = segment.own().large + epoch % kMediumSlots * kOneShotBytes;
        std::memcpy(slot, &epoch, sizeof epoch);
        std::memcpy(slot + kOneShotBytes - sizeof epoch, &epoch, sizeof epoch);
        segment.begin(epoch, false);
        while (!segment.begun(other, epoch)) std::this_thread::yield();
        const Cell& theirs = segment.cell(other, epoch);
        CHECK(theirs.what.count == epoch * 2 + (1 - me));
        CHECK(std::memcmp(theirs.small, &epoch, sizeof epoch) == 0);
        slot = segment.of(other).large + epoch % kMediumSlots * kOneShotBytes;
        CHECK(std::memcmp(slot, &epoch, sizeof epoch) == 0);
        CHECK(std::memcmp(slot + kOneShotBytes - sizeof epoch, &epoch, sizeof epoch) == 0);
      },
      [](std::uint64_t) {});
}

// SB: of two ranks that begin an epoch at once, at least one sees that all have begun, and wakes who sleeps.
TEST(store_buffering_of_two_that_begin) {
  Pair pair;
  std::array<bool, 2> saw{};
  race(
      [&](std::size_t me, std::uint64_t epoch) {
        SharedSegment& segment = pair.segments[me];
        segment.begin(epoch, false);
        saw[me] = segment.all_begun(epoch);
      },
      [&](std::uint64_t) { CHECK(saw[0] || saw[1]); });
}

// SB: a rank that begins and one that goes to sleep: the sleeper sees the epoch, or its bell rings.
TEST(store_buffering_of_one_that_begins_and_one_that_parks) {
  Pair pair;
  bool saw = false;
  race(
      [&](std::size_t me, std::uint64_t epoch) {
        SharedSegment& segment = pair.segments[me];
        if (me == 0) {
          segment.begin(epoch, true);
        } else {
          // This does what Sleepers::set_parked and the look around that follows it do.
          pair.arenas[1].header().parked.store(Parked::for_everything, std::memory_order_relaxed);
          std::atomic_thread_fence(std::memory_order_seq_cst);
          saw = segment.begun(0, epoch);
        }
      },
      [&](std::uint64_t) {
        CHECK(pair.rang_at(1) || saw);
        pair.arenas[1].header().parked.store(Parked::no);
      });
}

// MP through a counter that both add to: who finds all pieces finished sees what others wrote for them.
TEST(message_passing_by_counting) {
  Pair pair;
  std::array<std::uint64_t*, 2> pieces{};
  for (std::size_t me = 0; me < 2; ++me)
    pieces[me] = reinterpret_cast<std::uint64_t*>(pair.arenas[me].allocate(sizeof(std::uint64_t)));
  auto& finished = pair.segments[0].own().finished[0].value;
  finished.store(0);
  race(
      [&](std::size_t me, std::uint64_t round) {
        *pieces[me] = round;
        finished.fetch_add(1, std::memory_order_acq_rel);
        while (finished.load(std::memory_order_acquire) != 2 * round) std::this_thread::yield();
        CHECK(*pieces[1 - me] == round);
      },
      [](std::uint64_t) {});
}
