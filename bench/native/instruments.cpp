// The loops of benchmarks that Python would slow down: calls of one function, one after the other, and passes of
// threads that meet in between. `paceline_bench/instruments.py` hands the functions of the engine that is installed to
// them, so that it is measured as users have it.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "codec/codec.hpp"
#include "kernel/reduce.hpp"

using namespace paceline;

namespace {

using Reduce = decltype(Kernels::reduce);

constexpr std::size_t kLine = 64;
constexpr std::size_t kFloatsPerLine = kLine / sizeof(float);
constexpr int kSpins = 10'000;  // some tens of µs: a thread that is awaited for longer may not run for want of this CPU

std::int64_t now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

template <typename Call>
std::int64_t time_calls(clockid_t clock, int calls, Call&& call) {
  const std::int64_t begin = now(clock);
  for (int i = 0; i < calls; ++i) call();
  return now(clock) - begin;
}

class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads), spins_(threads > cpus() ? 0 : kSpins) {}

  void wait() {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int looks = 0; round_.load(std::memory_order_acquire) == round; ++looks)
      if (looks >= spins_) ::sched_yield();
  }

 private:
  static int cpus() {
    cpu_set_t allowed;
    return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  }

  const int threads_;
  const int spins_;
  alignas(kLine) std::atomic<int> arrived_ = 0;
  alignas(kLine) std::atomic<unsigned> round_ = 0;
};

// All ranks are threads of one process. In each pass they meet, each does its `part`, and they meet again. No thread is
// pinned. A thread that waits spins, but yields at once if the ranks outnumber the CPUs. See `time_passes`.
template <typename Part>
std::int64_t time_meetings(int ranks, int untimed, int passes, std::int64_t* times, Part&& part) {
  Barrier barrier(ranks);
  std::int64_t cpu = 0;
  const auto take_part = [&](int rank) {
    for (int pass = 0; pass < untimed + passes; ++pass) {
      if (rank == 0 && pass == untimed) cpu = now(CLOCK_PROCESS_CPUTIME_ID);
      const std::int64_t begin = now(CLOCK_MONOTONIC);
      barrier.wait();
      part(rank);
      barrier.wait();
      if (rank == 0 && pass >= untimed) times[pass - untimed] = now(CLOCK_MONOTONIC) - begin;
    }
    if (rank == 0) cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 1; rank < ranks; ++rank) others.emplace_back(take_part, rank);
  take_part(0);
  for (auto& other : others) other.join();
  return cpu;
}

// `out[i] = a[i] + b[i]`, the yardstick of reductions.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void add(float* out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

// All return nanoseconds.
extern "C" {

std::int64_t time_reduce(Reduce reduce, int dtype, int op, double divisor, std::byte* out, const std::byte* a,
                         const std::byte* b, std::size_t count, int calls) {
  const std::byte* in[2] = {a, b};
  const Fold fold{static_cast<DType>(dtype), static_cast<Op>(op), divisor};
  return time_calls(CLOCK_MONOTONIC, calls, [&] { reduce(fold, out, in, 2, count); });
}

std::int64_t time_add(float* out, const float* a, const float* b, std::size_t count, int calls) {
  return time_calls(CLOCK_MONOTONIC, calls, [&] { add(out, a, b, count); });
}

// CPU time, because what counts is what a core can do, whoever else wants it meanwhile.
std::int64_t time_encode(decltype(&encode) encoder, int codec, int dtype, const std::byte* in, std::size_t elements,
                         std::byte* out, int calls) {
  return time_calls(CLOCK_THREAD_CPUTIME_ID, calls,
                    [&] { encoder(static_cast<Codec>(codec), static_cast<DType>(dtype), in, elements, out); });
}

std::int64_t time_decode(decltype(&decode) decoder, int codec, int dtype, const std::byte* in, std::size_t bytes,
                         std::byte* out, std::size_t elements, int calls) {
  return time_calls(CLOCK_THREAD_CPUTIME_ID, calls,
                    [&] { decoder(static_cast<Codec>(codec), static_cast<DType>(dtype), {in, bytes}, out, elements); });
}

std::int64_t time_copy(const std::byte* in, std::byte* out, std::size_t bytes, int calls) {
  return time_calls(CLOCK_THREAD_CPUTIME_ID, calls, [&] { std::memcpy(out, in, bytes); });
}

// Each rank reduces its block from all sources into the first target, where all may read the result; real ranks cannot
// do less. Without `reduce`, each copies its source to the next rank's target. Writes the time of each of the `passes`,
// which follow the `untimed`, and returns the CPU time of all of them.
std::int64_t time_passes(Reduce reduce, int ranks, const float* const* sources, float* const* targets,
                         std::size_t count, int untimed, int passes, std::int64_t* times) {
  // Blocks are whole cache lines, so that no two ranks write to the same one.
  const auto begin_of = [&](int rank) {
    const std::size_t lines = (count + kFloatsPerLine - 1) / kFloatsPerLine;
    return std::min(count, lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks) * kFloatsPerLine);
  };
  return time_meetings(ranks, untimed, passes, times, [&](int rank) {
    if (reduce == nullptr) {
      std::memcpy(targets[(rank + 1) % ranks], sources[rank], count * sizeof(float));
      return;
    }
    const std::size_t begin = begin_of(rank);
    std::vector<const std::byte*> in;
    in.reserve(static_cast<std::size_t>(ranks));
    for (int each = 0; each < ranks; ++each) in.push_back(reinterpret_cast<const std::byte*>(sources[each] + begin));
    auto* out = reinterpret_cast<std::byte*>(targets[0] + begin);
    reduce({DType::float32, Op::sum}, out, in.data(), in.size(), begin_of(rank + 1) - begin);
  });
}

}  // extern "C"
