// Threads of a block on the host: they meet at barriers, and only those of a warp where it is the warp's.
#include <numeric>

#include "device/kernels/on_host/fibers.hpp"
#include "device/kernels/on_host/thread.hpp"
#include "tests/check.hpp"

using namespace paceline::device;

namespace {

constexpr unsigned kThreads = 80;  // the last warp is not full

template <typename Body>
void in_block(Body& body) {
  std::vector<std::uint32_t> given(kThreads);
  host_thread = {0, kThreads, 0, 1, given.data()};
  Fibers(kThreads).run([](void* argument) { (*static_cast<Body*>(argument))(); }, &body);
}

}  // namespace

TEST(nobody_passes_a_barrier_before_all_have_come) {
  std::vector<unsigned> arrived(5);
  unsigned checked = 0;
  auto body = [&] {
    for (unsigned& each : arrived) {
      ++each;
      block_barrier();
      CHECK(each == kThreads);
      ++checked;
    }
  };
  in_block(body);
  CHECK(checked == kThreads * arrived.size());
}

TEST(warps_wait_for_themselves_alone) {
  std::vector<unsigned> turns(kThreads);
  auto body = [&] {
    const unsigned thread = thread_in_block();
    for (unsigned turn = 0; turn < thread / kHostWarp * 3; ++turn) {  // other warps have other numbers of turns
      const std::uint32_t highest = warp_max(thread);
      CHECK(highest == std::min(thread / kHostWarp * kHostWarp + kHostWarp, kThreads) - 1);
      const std::uint32_t odd = warp_ballot(thread % 2 == 1);
      CHECK(odd == (thread / kHostWarp == 2 ? 0xaaaaU : 0xaaaaaaaaU));
      ++turns[thread];
    }
    CHECK(block_count(thread % 5 == 0) == kThreads / 5);
  };
  in_block(body);
  for (unsigned thread = 0; thread < kThreads; ++thread) CHECK(turns[thread] == thread / kHostWarp * 3);
}

TEST(a_block_may_run_again) {
  unsigned sum = 0;
  auto body = [&] { sum += thread_in_block(); };
  for (int i = 0; i < 3; ++i) in_block(body);
  CHECK(sum == 3 * kThreads * (kThreads - 1) / 2);
}
