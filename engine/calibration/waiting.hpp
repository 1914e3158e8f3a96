// Waiting: constants of progress/backoff, progress/waiting, progress/loop, progress/placement.
#pragma once

#include <chrono>

namespace paceline::calibration {

// Time in which a waiting rank yields its core in vain, meaning that nobody takes it, before it sleeps. It is the first
// budget of every wait; sleeps that turn out short double it, long ones halve it.
// Found: by hand, above the 28 us that a wake-up across cores takes on machine B.
// Off by 2: not clearly above the noise (2 ranks; 4 ranks on 2 CPUs; 2 ranks beside 2 computing processes; 1+1 at 10
// Gbit/s); the budget adapts after the first wait.
inline constexpr std::chrono::microseconds kYield{50};
// Time that the budget of a small operation may become; that of a large one stays at kYield.
// Found: on machine B, where some runs at 4 KiB on 3+3 slept in every call and took 150 us. For large operations the
// same gave 30 to 50 % more CPU time at 32 MiB.
// Off by 2: within noise (2 ranks; 4 ranks on 2 CPUs; 2+3; 3+3+4).
inline constexpr std::chrono::microseconds kLongestYield{150};
// Time that the budget may shrink to.
// Found: by hand. Off by 2: not clearly above the noise (2 ranks; 4 ranks on 2 CPUs; 2+3).
inline constexpr std::chrono::nanoseconds kShortestYield{2'000};
// Time below which a yield was in vain: nobody took the core. A switch to another process and back takes longer.
// Found: by hand, above a system call that changes nothing.
// Off by 2: not clearly above the noise (2 ranks; 4 ranks on 2 CPUs).
inline constexpr std::chrono::microseconds kYieldInVain{1};
// Time after which a rank sleeps even if all of its yields were answered.
// Found: by hand. Off by 2: 1.41 times as long at worst (twice, all_reduce 8 bytes, 2 ranks beside 2 computing
// processes).
inline constexpr std::chrono::microseconds kLongestWait{200};
// Time away in a yield from which on a process that computes has the core: it keeps the core for a time slice of some
// milliseconds, and peers give it back within microseconds.
// Found: by hand on machine B. Off by 2: within noise (4 ranks on 2 CPUs; 2 ranks beside 2 computing processes).
inline constexpr std::chrono::milliseconds kLongAbsence{1};
// Yields between two long absences from which on yielding helps all the same, so that the second one is forgiven.
// Found: by hand on machine B.
// Off by 2: 1.17 times as long at worst (half, all_reduce 8 bytes, 2 ranks beside 2 computing processes).
inline constexpr unsigned kYieldsThatHelp = 256;
// Time without yields after a first long absence, which may have been a peer that started; and after each further one.
// Found: on machine A. 60 bursts of 128 calls at 4 KiB on 3+3 took 80 us a call with 500 ms after every absence and 68
// with these two; 4 ranks on 2 CPUs at 8 B took 13 and 5.7 us. Beside two computing processes 500 ms took 298 and 343
// us where 100 ms took 928; doubling from 10 ms in six steps took 89 us where 500 ms took 69.
// Off by 2: kFirstYieldPause within noise (4 ranks on 2 CPUs; 2 ranks beside 2 computing processes), kYieldPause 1.23
// times as long at worst (half, all_reduce 8 bytes, 2 ranks beside 2 computing processes).
inline constexpr std::chrono::milliseconds kFirstYieldPause{10};
inline constexpr std::chrono::milliseconds kYieldPause{500};
// Looks between two readings of the clock, while a rank spins.
// Found: by hand. Off by 2: not clearly above the noise (2 ranks; 4 ranks on 2 CPUs; 1+1 at 10 Gbit/s).
inline constexpr unsigned kLooksPerClock = 16;
// Passes of the loop between two looks at timeouts.
// Found: by hand. Off by 2: not clearly above the noise (1+1 at 10 Gbit/s).
inline constexpr unsigned kPassesPerClock = 64;
// Passes of the loop between two looks at sockets while operations move on in shared memory alone.
// Found: by hand; a look is a system call, and only errors come that way.
// Off by 2: within noise (2 ranks).
inline constexpr unsigned kPassesPerSocketLook = 256;
// Time between two questions of a waiting caller whether a signal came. To ask takes Python's lock.
// Found: on machine B. 4 MiB over TCP beside a computing Python thread took 113 and 69 ms with a question at every
// wake-up, and 68 and 25 ms with this.
// Off by 2: within noise (1+1 at 10 Gbit/s, each beside a computing thread); it is how late Ctrl-C may be noticed.
inline constexpr std::chrono::milliseconds kAskAfter{20};
// Looks of a waiting rank between two looks at which CPU it runs on, and the time between two moves of a rank.
// Found: by hand on machine A. 3+3+4 at 4 KiB, in turn: 143, 177, 185 us before ranks moved and 154, 142, 141 after.
// 2 ranks at 8 B took 0.68 to 0.70 us with the looks and without.
// Off by 2: kLooksPerPlacement within noise (4 ranks on 2 CPUs; 3+3+4), kMovePause 1.10 times as long at worst (twice,
// in_place 2 MiB, 4 ranks on 2 CPUs).
inline constexpr unsigned kLooksPerPlacement = 16;
inline constexpr std::chrono::milliseconds kMovePause{5};

}  // namespace paceline::calibration
