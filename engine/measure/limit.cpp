#include "measure/limit.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "failure/error.hpp"
#include "kernel/reduce.hpp"

namespace paceline {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kLine = 64;
constexpr std::size_t kFloatsPerLine = kLine / sizeof(float);
constexpr int kSpins = 10'000;  // some tens of µs: a thread that is awaited for longer may not run for want of this CPU
constexpr int kUntimed = 3;
constexpr int kMostRanks = 128;
constexpr std::size_t kPeriod = 1021;  // prime, and small enough that every sum over `kMostRanks` is exact

// Holds float32 zeros, on huge pages if the kernel has some.
class Floats {
 public:
  explicit Floats(std::size_t count) : size_(std::max(count * sizeof(float), kLine)) {
    void* found = ::mmap(nullptr, size_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    mapped_ = found;
    const auto address = reinterpret_cast<std::uintptr_t>(found);
    data = reinterpret_cast<float*>((address + kHugePage - 1) / kHugePage * kHugePage);
    ::madvise(data, size_, MADV_HUGEPAGE);
  }
  ~Floats() { ::munmap(mapped_, size_ + kHugePage); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data;

 private:
  std::size_t size_;
  void* mapped_;
};

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

std::int64_t now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000L + time.tv_nsec;
}

float value(std::size_t index) { return static_cast<float>(index % kPeriod); }

std::vector<std::unique_ptr<Floats>> buffers_of(int ranks, std::size_t count) {
  std::vector<std::unique_ptr<Floats>> buffers;
  buffers.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) buffers.push_back(std::make_unique<Floats>(count));
  return buffers;
}

// Rank r has `value` times r + 1.
std::vector<std::unique_ptr<Floats>> values_of(int ranks, std::size_t count) {
  auto buffers = buffers_of(ranks, count);
  float factor = 0;
  for (const auto& buffer : buffers) {
    ++factor;
    for (std::size_t i = 0; i < count; ++i) buffer->data[i] = value(i) * factor;
  }
  return buffers;
}

// The collectives. Ranks begin with `values_of`; `part` is what a rank does in a pass.
class AllReduce {
 public:
  AllReduce(int ranks, std::size_t count) : ranks_(ranks), count_(count), buffers_(values_of(ranks, count)) {}

  void part(int rank) const {
    const std::size_t begin = begin_of(rank);
    std::vector<const std::byte*> in;
    in.reserve(buffers_.size());
    for (const auto& each : buffers_) in.push_back(reinterpret_cast<const std::byte*>(each->data + begin));
    auto* out = reinterpret_cast<std::byte*>(buffers_[0]->data + begin);
    kernels().reduce({DType::float32, Op::sum}, out, in.data(), in.size(), begin_of(rank + 1) - begin);
  }

  std::size_t wrong() const {
    const auto sum = static_cast<float>(ranks_) * static_cast<float>(ranks_ + 1) / 2;
    std::size_t found = 0;
    for (std::size_t i = 0; i < count_; ++i) found += buffers_[0]->data[i] != value(i) * sum;
    return found;
  }

  // Zeros stay zeros, so that repeated passes in place neither overflow nor slow down.
  void settle(int rank) const {
    for (const auto& each : buffers_) std::fill(each->data + begin_of(rank), each->data + begin_of(rank + 1), 0.0F);
  }

 private:
  // Blocks are whole cache lines, so that no two ranks write to the same one.
  std::size_t begin_of(int rank) const {
    const std::size_t lines = (count_ + kFloatsPerLine - 1) / kFloatsPerLine;
    return std::min(count_, lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks_) * kFloatsPerLine);
  }

  const int ranks_;
  const std::size_t count_;
  const std::vector<std::unique_ptr<Floats>> buffers_;
};

class SendRecv {
 public:
  SendRecv(int ranks, std::size_t count)
      : ranks_(ranks), count_(count), sent_(values_of(ranks, count)), received_(buffers_of(ranks, count)) {}

  void part(int rank) const {
    const float* from = sent_[static_cast<std::size_t>(rank)]->data;
    std::memcpy(received_[static_cast<std::size_t>(rank + 1) % sent_.size()]->data, from, count_ * sizeof(float));
  }

  std::size_t wrong() const {
    std::size_t found = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const float* received = received_[static_cast<std::size_t>(rank + 1) % sent_.size()]->data;
      for (std::size_t i = 0; i < count_; ++i) found += received[i] != value(i) * static_cast<float>(rank + 1);
    }
    return found;
  }

  static void settle(int /*rank*/) {}

 private:
  const int ranks_;
  const std::size_t count_;
  const std::vector<std::unique_ptr<Floats>> sent_;
  const std::vector<std::unique_ptr<Floats>> received_;
};

template <typename Work>
class Ranks {
 public:
  Ranks(int ranks, std::size_t count) : ranks_(ranks), work_(ranks, count), barrier_(ranks) {}

  LimitTimes run(int iterations) {
    LimitTimes found;
    found.times.reserve(static_cast<std::size_t>(iterations));
    std::vector<std::thread> others;
    for (int rank = 1; rank < ranks_; ++rank)
      others.emplace_back([this, rank, iterations] { take_part(rank, iterations, nullptr); });
    take_part(0, iterations, &found);
    for (auto& other : others) other.join();
    return found;
  }

 private:
  void take_part(int rank, int iterations, LimitTimes* found) {
    const auto pass = [&] {
      barrier_.wait();
      work_.part(rank);
      barrier_.wait();
    };

    pass();
    if (found != nullptr) found->wrong = work_.wrong();
    barrier_.wait();
    work_.settle(rank);
    for (int i = 0; i < kUntimed; ++i) pass();
    const std::int64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < iterations; ++i) {
      const std::int64_t start = now(CLOCK_MONOTONIC);
      pass();
      if (found != nullptr) found->times.push_back(now(CLOCK_MONOTONIC) - start);
    }
    if (found != nullptr) found->cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  }

  const int ranks_;
  const Work work_;
  Barrier barrier_;
};

template <typename Work>
LimitTimes limit_of(int ranks, std::size_t bytes, int iterations) {
  if (ranks < 1 || ranks > kMostRanks || iterations < 1)
    throw Failure(ErrorKind::invalid, "the limit is measured with 1 to " + std::to_string(kMostRanks) +
                                          " ranks and at least one iteration");
  return Ranks<Work>(ranks, bytes / sizeof(float)).run(iterations);
}

}  // namespace

LimitTimes limit_all_reduce(int ranks, std::size_t bytes, int iterations) {
  return limit_of<AllReduce>(ranks, bytes, iterations);
}

LimitTimes limit_sendrecv(int ranks, std::size_t bytes, int iterations) {
  return limit_of<SendRecv>(ranks, bytes, iterations);
}

}  // namespace paceline
