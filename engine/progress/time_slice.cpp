#include "progress/time_slice.hpp"

#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace paceline {
namespace {

struct SchedulingAttributes {  // sched_setattr(2), its first version; glibc declares it from 2.41 on
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;  // ns; the slice of an ordinary thread
  std::uint64_t deadline;
  std::uint64_t period;
};

constexpr std::uint64_t kSliceNs = 100'000;  // the least that the kernel grants

}  // namespace

bool ask_for_short_slices() {
  SchedulingAttributes attributes{};
  const auto read = [&] { return ::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0; };
  if (!read() || attributes.policy != SCHED_OTHER) return false;
  attributes.runtime = kSliceNs;
  attributes.flags |= SCHED_FLAG_RESET_ON_FORK;  // threads that a callback starts are not ours
  return ::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && read() && attributes.runtime == kSliceNs;
}

}  // namespace paceline
