// The CPUs of a rank, and the threads that want them: those of its program, and the one that runs the policy.
//
// What "Load imbalance in data processing for large-scale deep learning" (section III-D) found follows from three rules
// of Linux's fair scheduler, here with its defaults from eight CPUs on (CFS, kernels before 6.6: kernel/sched/fair.c,
// Documentation/scheduler/sched-design-CFS.rst). While every CPU is busy,
//   - a thread that wakes up takes the CPU from the one that runs there if it is owed enough time, which is what it has
//     slept; otherwise it waits until the other one's time slice is over: it oversleeps;
//   - a thread that spins takes turns with the thread that it shares a CPU with, which then takes twice as long;
//   - a thread that yields lets the other one use its slice, and sees what it waits for only afterwards.
#pragma once

#include <algorithm>

namespace paceline::simulate {

struct Cores {
  int cpus = 0;        // for the threads of one rank; 0: as many as they want
  int threads = 0;     // of its program: those that compute or feed a device, and those that prepare input
  double seconds = 0;  // of a step, from its beginning on: for so long all of them have work
  // Whether the thread that runs the policy has a CPU of its own (SCP, section IV-C of the paper). The other threads
  // are taken to have what they need on the rest.
  bool divided = false;

  // Seconds for which a thread runs while another one waits for its CPU: sched_latency / 2.
  static constexpr double kSlice = 0.012;
  // Seconds that a thread must be owed to take the CPU from another one: sched_wakeup_granularity.
  static constexpr double kOwed = 0.004;

  // Times are seconds since the step began, and `luck` is a random number from 0 to 1.
  bool busy(double at) const { return cpus > 0 && !divided && threads >= cpus && at >= 0 && at < seconds; }
  // By how much a sleep lasts too long that should end at this time.
  double wakes_late(double at, double slept, double luck) const {
    return busy(at) && slept < kOwed ? luck * kSlice : 0;
  }
  // By how much later a thread sees the outcome, which is there at this time, for which it has spun or yielded.
  double sees_late(double at, double waited, bool spins, double luck) const {
    if (!busy(at)) return 0;
    if (!spins) return luck * kSlice;
    // During a long wait the other thread has had every second slice.
    return waited > kSlice && luck < 0.5 ? 2 * luck * kSlice : 0;
  }
  // The part of a wait in which its spinning takes a CPU from another thread.
  double contended(double from, double to) const {
    return busy(0) ? std::max(0.0, std::min(to, seconds) - std::max(from, 0.0)) : 0;
  }
  // How many times as long a rank's delays take if a thread has span for so long in a step. A framework schedules on
  // all CPUs, so one of the threads that feed its device always shares the spinner's.
  double slower(double span) const { return span > 0 ? 1 + std::min(1.0, span / seconds) : 1; }
};

}  // namespace paceline::simulate
