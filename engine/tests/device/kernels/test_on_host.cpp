// Kernels on the host: all have their names there, and threads of a block meet at barriers, only those of a warp where
// it is the warp's.
#include <algorithm>
#include <cstring>

#include "device/kernels/on_host/fibers.hpp"
#include "device/kernels/on_host/run.hpp"
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

TEST(every_name_is_a_kernel_of_the_host) {
  constexpr Dimensions kBlock{32};
  for (const std::string_view name : kernel_names()) {
    CHECK(name.data()[name.size()] == '\0');  // cuModuleGetFunction reads on to a 0
    // Whatever the kernel's parameters are, they ask for nothing; codecs write how little that is.
    alignas(16) std::byte nothing[1024] = {};
    std::uint64_t offset = 0;
    std::uint32_t refused = 0;
    const DecodeParameters no_elements{nullptr, 0, nullptr, 0, &offset, &refused};
    if (name.ends_with("three_in_one")) std::memcpy(nothing, &no_elements, sizeof no_elements);
    void* parameters[] = {nothing};
    CHECK(run_on_host(name, {}, kBlock, 0, parameters));
  }
  void* none[] = {nullptr};
  CHECK(!run_on_host("paceline_reduce_float32_mean", {}, kBlock, 0, none));
}
