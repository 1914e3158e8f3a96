// The slice that a thread asks for is its own.
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "progress/time_slice.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

std::uint64_t slice_of_this_thread() {
  std::array<std::byte, 48> attributes{};
  CHECK(::syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0) == 0);
  std::uint64_t slice = 0;
  std::memcpy(&slice, attributes.data() + 24, sizeof slice);
  return slice;
}

}  // namespace

TEST(short_slices_are_of_the_thread_that_asked_alone) {
  const std::uint64_t usual = slice_of_this_thread();
  std::thread([&] {
    const bool granted = ask_for_short_slices();
    CHECK(granted == (slice_of_this_thread() == 100'000));
    std::thread([&] { CHECK(slice_of_this_thread() == usual); }).join();
  }).join();
  CHECK(slice_of_this_thread() == usual);
}
