// Measures the CPU time that the loop's threads spend on coordination, as opposed to moving data.
//
// The clock of a thread's CPU time costs a system call, so it is read only when a thread turns to other work.
#pragma once

#include <cstdint>
#include <ctime>

namespace paceline {

class CpuMeter {
 public:
  enum class Work : std::uint8_t { other, coordination };

  // Adds the time of one thread's coordination to `sum`, for as long as this object lives in it.
  explicit CpuMeter(std::uint64_t& sum) : sum_(sum) {}
  ~CpuMeter() { turn_to(Work::other); }
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;

  Work work() const { return work_; }
  void turn_to(Work work) {
    if (work == work_) return;
    const std::uint64_t now = thread_cpu_ns();
    if (work == Work::coordination) {
      since_ = now;
    } else {
      sum_ += now - since_;
    }
    work_ = work;
  }
  // Adds the time up to now.
  void count() {
    if (work_ == Work::other) return;
    const std::uint64_t now = thread_cpu_ns();
    sum_ += now - since_;
    since_ = now;
  }

 private:
  static std::uint64_t thread_cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  }

  std::uint64_t& sum_;
  std::uint64_t since_ = 0;
  Work work_ = Work::other;
};

}  // namespace paceline
