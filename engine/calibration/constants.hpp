// Every constant of the engine that was fitted by measurement or set by hand, with what is known of it. What is a limit
// of a format or of a protocol, or a plain matter of design, stays where it is used.
//
// Each comment gives the unit, then after "Found:" how the value was found and on what, and after "Off by 2:" what it
// costs to be wrong by a factor of two in either direction. "By hand" means that a plausible value was set and nothing
// better was looked for. scripts/engine_sensitivity.py measures what an error costs and writes "... times as long at
// worst (...)", the worst of the calls that it tries, or "within noise (...)", with the ranks that it tried. Machine A
// has 2 virtual cores of an AMD EPYC (Zen 4), 1 MiB of second-level cache each; machine B has 2 virtual cores with 2
// MiB each; both run Linux 6.18. A topology such as 3+3+4 names the ranks of each machine of a `paceline lab` on one of
// them. docs/explanation/calibration.md says how to fit a constant again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::calibration {

// ---- Waiting: progress/backoff, progress/waiting, progress/loop, progress/placement ----

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

// ---- Handing over in shared memory: segment/handover ----

// Bytes from which on a copy may go around the caches. Less is most often copied to lines that are still in the cores'
// own caches.
// Found: on machine A while its cores shared no cache: 8 KiB took 5.3 us by plain stores and 2.5 us around the caches.
// Off by 2: not clearly above the noise (2 ranks).
inline constexpr std::size_t kLeastStreamed = std::size_t{8} << 10;
// Time of a probe of 32 lines from which on cores are far apart.
// Found: on machine A, where a probe takes 50 to 200 ns near and 600 to 1000 ns far.
// Off by 2: at 200 ns near probes begin to count as far, at 800 ns far ones as near; both cost up to the factor of 3 to
// 4 that the right choice gains far apart (32 KiB: 16.6 to 4.7 us).
inline constexpr std::chrono::nanoseconds kFarProbe{400};
// Probes in a row that count. One that takes long may have been interrupted; one that does not may have met lines that
// nobody had read.
// Found: by hand on machine A. Off by 2: kFarProbesInRow not clearly above the noise (2 ranks), kNearProbesInRow not
// clearly above the noise (2 ranks); they delay the change by so many times kCopiesPerProbe copies.
inline constexpr int kFarProbesInRow = 2;
inline constexpr int kNearProbesInRow = 16;
// Large copies from one probe to the next.
// Found: by hand; a probe of 1 us at most is spread over 16 copies of 1 us and more. Off by 2: within noise (2 ranks).
inline constexpr unsigned kCopiesPerProbe = 16;

// ---- Caches: memory/cache ----

// The part of the first-level cache that a pass of a reduction fills, as a divisor: three inputs or outputs fit.
// Found: by counting. Off by 2: 1.80 times as long at worst (twice, all_gather 4 KiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kPassesPerFirstCache = 3;
// The part of the second-level cache that a block of a large exchange fills, as a divisor.
// Found: on machine B, where 64 to 256 KiB were within noise of each other.
// Off by 2: within noise there; the method tuner tries half and twice for large all-reduces.
inline constexpr std::size_t kBlocksPerSecondCache = 4;
// After so many second-level caches of bytes handed over, the same memory is written again.
// Found: on machine A. It took 32 KiB from 6.5 to 2.6 us and 256 KiB from 36.5 to 14.9 us between two ranks, compared
// with memory that the other core still holds.
// Off by 2: half lets lines stay in the other core's cache; twice was not measured.
inline constexpr std::size_t kSecondCachesPerTurnover = 2;

// ---- Methods in shared memory: segment/method_tuner, shared/ ----

// Bytes of a block below which no method is tried.
// Found: by hand. Off by 2: within noise (2 ranks).
inline constexpr std::size_t kSmallestBlock = std::size_t{16} << 10;
// Bytes from which on two ranks are expected to be quicker when they read each other's memory through the kernel, which
// copies each byte once where a pipe takes two copies; and from which on that is worth a try.
// Found: on machine B: 1 MiB takes 170 us and 130 through the pipe, 4 MiB 0.69 and 16 MiB 0.58 of the pipe's time.
// Off by 2: only the first calls of a size, as all methods are measured in them.
inline constexpr std::size_t kFetchedBytes = std::size_t{3} << 20;
inline constexpr std::size_t kMaybeFetchedBytes = std::size_t{256} << 10;
// Ranks up to which that is tried: each reads from all others.
// Found: on machine B, where 3 and more ranks were not quicker. Off by 2: 1.27 times as long at worst (twice,
// all_reduce 1 MiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kMostFetching = 4;
// Calls with which each method is tried. Their median counts: some calls are interrupted, some are lucky.
// Found: by hand on machine B. Off by 2: within noise (2 ranks); at most four methods are tried, so 20 calls of a size.
inline constexpr std::size_t kTries = 5;
// The share of the foreseen method's time below which another one replaces it. A smaller gain is noise.
// Found: by hand. Off by 2: not clearly above the noise (2 ranks).
inline constexpr double kClearly = 0.9;
// A call is unusual if it takes this many times as long as usual, or the usual time divided by this.
// Found: by hand on machine A, whose cores are near for some minutes and far apart for others, which changes large
// calls by a factor of 2 to 7. Off by 2: within noise (2 ranks).
inline constexpr double kUnusual = 1.5;
// Unusual calls in a row after which all methods are tried again, at first and at most: each try that changes nothing
// doubles it.
// Found: by hand on machine A. Off by 2: kPatience within noise (2 ranks), kMostPatience not clearly above the noise (2
// ranks).
inline constexpr std::size_t kPatience = 5;
inline constexpr std::size_t kMostPatience = 80;
// Bytes of the pieces that ranks claim when they reduce in place; and how many pieces a rank's region has, as far as
// these bounds allow.
// Found: by hand on machine B. Off by 2: kSmallestPiece not clearly above the noise (2 ranks; 4 ranks on 2 CPUs),
// kLargestPiece within noise (2 ranks; 4 ranks on 2 CPUs), kPiecesPerRegion within noise (2 ranks; 4 ranks on 2 CPUs).
inline constexpr std::size_t kSmallestPiece = std::size_t{16} << 10;
inline constexpr std::size_t kLargestPiece = std::size_t{256} << 10;
inline constexpr std::size_t kPiecesPerRegion = 4;
// Second-level caches of bytes, of all ranks together, up to which an exchange copies to slots: copies take more work
// and pay while all of them stay in the caches near the cores.
// Found: on machine A while its cores were near. Off by 2: not clearly above the noise (4 ranks on 2 CPUs).
inline constexpr std::size_t kSlotsOfAll = 3;
// Bytes up to which data that others can read where they lie are copied all the same: then nobody waits for readers.
// Found: on machine A, together with kSecondCachesPerTurnover. Off by 2: 1.74 times as long at worst (twice, all_gather
// 4 KiB, 4 ranks on 2 CPUs).
inline constexpr std::size_t kCopiedAnyway = std::size_t{4} << 10;

// ---- Messages: message/, program/plan, progress/collectives ----

// Bytes that an operation moves or combines in one step, before the loop looks at the others.
// Found: by hand; some 30 to 90 us at the 12 to 35 GB/s of machines A and B. Off by 2: not clearly above the noise (2
// ranks; 1+1 at 10 Gbit/s).
inline constexpr std::size_t kStepBytes = std::size_t{1} << 20;
// Bytes of a message in the arena from which on its receiver copies it around the caches: to fetch the lines that it
// writes would take a third of what memory carries, and the first of them would have left the caches by the last.
// Found: on machine A, where two processes that copied 64 MiB each at once, in pieces of 2 MiB, did so at 9.8 GB/s by
// memcpy and 13.3 around the caches (medians, at a load of 30); the bound itself by hand.
// Off by 2: not measured.
inline constexpr std::size_t kLeastStreamedMessage = std::size_t{8} << 20;
// Bytes of each input that are combined in one pass, so that they stay in the second-level cache.
// Found: by hand on machine B. Off by 2: not clearly above the noise (1+1 at 10 Gbit/s).
inline constexpr std::size_t kCombinedBlock = std::size_t{128} << 10;
// Chunks of a buffer that are under way at once.
// Found: on machine B with `paceline lab`; what was compared is not recorded.
// Off by 2: twice as many bytes under way lost packets (2+2+2 took up to 814 ms of 750, 1x8 3.1 to 3.5 s of 2.9).
inline constexpr std::size_t kChunksInFlight = 4;
// Chunks above which they are up to twice as long, with as many bytes under way.
// Found: on machine A: 3+3+4 at 32 MiB went from 1144 ms and 0.69 s of CPU time to 1134 ms and 0.50 s.
// Off by 2: within noise (2+3; 3+3+4).
inline constexpr std::size_t kFewChunks = 32;
// Bytes up to which a reduction to a root between machines is one hop: latency counts more than what links carry.
// Found: by hand. Off by 2: 3.08 times as long at worst (twice, reduce 6 KiB, 2+3).
inline constexpr std::size_t kReducedAtOnce = 4096;
// Bytes of a collective from which on its messages between machines are encoded: for less, latency is what counts.
// Found: by hand, where plans stop to be chosen for latency. Off by 2: 3.76 times as long at worst (twice, encoded 96
// KiB, 2+3).
inline constexpr std::size_t kEncodedFrom = std::size_t{64} << 10;

// ---- Named tensors: coordinator/, policy/holding ----

// Bytes of a tensor from which on it is reduced where it lies: two copies of so many bytes take about as long as one
// more collective.
// Found: on machine B, by that reckoning. Off by 2: 1.36 times as long at worst (half, named 48 KiB, named tensors of 2
// ranks).
inline constexpr std::size_t kReducedAlone = std::size_t{64} << 10;
// Bytes of a batch up to which the caller that hands in its last tensor packs it; the rest is for whoever waits.
// Found: by hand. Off by 2: within noise (named tensors of 2 ranks).
inline constexpr std::uint64_t kPackedBySubmitter = std::uint64_t{32} << 10;
// Bytes that are packed in one step.
// Found: by hand; some 20 us. Off by 2: 1.05 times as long at worst (twice, named 48 KiB, named tensors of 2 ranks).
inline constexpr std::size_t kPackedPerStep = std::size_t{256} << 10;
// Bytes of a collective, or of a batch, from which on its time is that of the links, so that it is counted for plans
// that follow the network. Found: by hand. Off by 2: within noise (named tensors of 2 ranks; 1+1 at 10 Gbit/s).
inline constexpr std::uint64_t kLargeCall = std::uint64_t{1} << 20;
// Bytes that are held back at least and at most while nobody waits for them; between the two an eighth, kHeldPart, of
// what has gone out.
// Found: on machine B with `paceline bench coordination`, under load: holding up to 4 MiB in place of 1 took 0.74 and
// 0.75 of the CPU time of agreeing in two runs, and 2.3 times in a third.
// Off by 2: kLeastHeld within noise (named tensors of 2 ranks), kMostHeld not clearly above the noise (named tensors of
// 2 ranks), kHeldPart within noise (named tensors of 2 ranks).
inline constexpr std::uint64_t kLeastHeld = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostHeld = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kHeldPart = 8;

// ---- The network: link/pace, link/smoothing ----

// Seconds of a link's bytes that the streams sharing it may have in a switch's queue.
// Found: on machine B with `paceline lab`, whose queue holds 10 ms: windows for 10 ms made 8+2 lose 1400 segments and
// wait for 20 timeouts, and 7 ms brought it within 2.1 % of the bound T*. It suits queues of 10 ms and more.
// Off by 2: 14 ms overflow a queue of 10 ms, and with 7 ms a queue of 2 ms costs 1.08 to 1.4 times T* on 2+2+3.
inline constexpr double kQueueSeconds = 0.007;
// Bytes of the smallest window; it holds a long packet.
// Found: by hand. Off by 2: within noise (3+3+4; 2+2+3, queues of 2 ms).
inline constexpr double kSmallestWindow = 16 << 10;
// Bytes of the largest window that is held. It is half of what any peer may send at first, which is the largest window
// it has then seen: where short packets overtake the others, the kernel drops data whose acknowledgement is older than
// that (RFC 5961, section 5.2), and they have to be sent again.
// Found: on machine B. Off by 2: 1.35 times as long at worst (twice, all_reduce 4 MiB, 3+3+4).
inline constexpr double kLargestWindow = 32 << 10;
// Bytes of a receive buffer per byte of window: the kernel's own bookkeeping takes the rest.
// Found: on machine B; how is not recorded. Off by 2: half or twice the window.
inline constexpr double kBufferPerWindow = 1.15;
// Time that packets may have waited when one was lost for the queue to count as short.
// Found: on machine A with `paceline lab`, at a load of 20 to 35: with queues of 2 ms 32 MiB on 2+2+3 took 1.05, 1.32,
// 1.62 and 1.77 times the bound T* without this and 1.04 and 1.04 with it; with this it took 1.00 with queues of 10 ms,
// 1.01 with 50 ms, 1.00 and 1.02 with 200 ms. Spreading all streams from the start took 1.04 with 2 ms, but 1.1 with
// 200 ms.
// Off by 2: within noise (2+2+3, queues of 2 ms).
inline constexpr std::chrono::microseconds kShortQueue{5'000};
// Time between two looks at what a stream has lost, and bytes of a message from which on there is a look at all.
// Found: by hand; a look is a system call. Off by 2: kLossLookPause within noise (2+2+3, queues of 2 ms),
// kLeastWatchedMessage within noise (2+2+3, queues of 2 ms); a stream goes on as before for that long.
inline constexpr std::chrono::milliseconds kLossLookPause{5};
inline constexpr std::size_t kLeastWatchedMessage = std::size_t{8} << 10;

}  // namespace paceline::calibration
