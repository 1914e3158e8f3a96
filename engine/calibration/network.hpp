// The network: constants of link/pace, link/peer_clock, link/send_limit, link/smoothing.
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::calibration {

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
// The part of its limit by which a stream that has lost packets at a short queue is lifted, to find out whether the
// links carry more than the plan believes. Found: BBR probes with it.
// Off by 2: by reckoning, a stream then has at least 1 / (1 + kLift) of what the link carries, 0.8 and with half 0.89,
// with twice 0.67; to reach a link of twice the plan's speed takes 4 steps of kLiftTrial, with half 6 and with twice 2.
inline constexpr double kLift = 0.25;
// Seconds at its limit after which a stream is lifted for the first time, the most of them after lifts that failed, and
// those until it is lifted further. Found: by hand. A lift that fails costs a policed link a loss on each stream.
// Off by 2: by reckoning, half or twice of kLiftPause leaves a link that the plan takes for slower than it is so slow
// for 2 or 8 s, and costs a stream one loss more or less in all; half or twice of kLongestLiftPause costs 112 or 28
// losses an hour in the long run, and not 56, and finds out up to 32 s sooner or 64 s later that a link has become
// faster; kLiftTrial climbs in half or twice the time, and with half may climb before a loss of the last step shows.
inline constexpr double kLiftPause = 4;
inline constexpr double kLongestLiftPause = 64;
inline constexpr double kLiftTrial = 0.25;
// Time until a peer is told the time again, at first, and at most: it doubles each time. And how long what peers have
// told each other counts, at least; at most it is twice that.
// Found: by hand. Telling costs a frame of some 20 bytes. On machine A three ranks knew each other's clocks within 10
// us after a second. Off by 2: by reckoning, half or twice as many frames for the pauses; with half of kClockSpan a
// link must be quiet at some moment of 4 s for tight bounds, and with twice, clocks that drift apart by 20 us a second
// are wrong by 0.3 ms more.
inline constexpr std::chrono::milliseconds kFirstClockPause{10};
inline constexpr std::chrono::milliseconds kLongestClockPause{1280};
inline constexpr std::chrono::seconds kClockSpan{8};

}  // namespace paceline::calibration
