// What the loop's threads spend on coordination, as opposed to moving data.
//
// The clock of a thread's CPU time costs a system call: it is read only when what a thread does changes.
#pragma once

#include <cstdint>
#include <ctime>

namespace paceline {

class CpuMeter {
 public:
  enum class Work : std::uint8_t { other, coordination };

  // Sums up the coordination of one thread, from the time that this is made in it until it goes.
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
  // Up to now.
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
