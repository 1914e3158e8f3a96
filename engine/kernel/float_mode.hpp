// How the calling thread treats floats that are too small to be normal. A program may set its own threads to flush them
// to zero, but one rank's sum is computed by whichever thread comes first, and all ranks must end with the same bits.
#pragma once

#include <cstdint>

namespace paceline {

// While this lives, the thread rounds as IEEE 754 says; afterwards it does what it did before.
class PlainFloats {
 public:
  PlainFloats() : before_(read()) {
    if ((before_ & kFlushes) != 0) write(before_ & ~kFlushes);
  }
  ~PlainFloats() {
    if ((before_ & kFlushes) != 0) write(before_);
  }
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint64_t kFlushes = 0x8040;  // of results, of inputs
  static std::uint64_t read() { return __builtin_ia32_stmxcsr(); }
  static void write(std::uint64_t mode) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlushes = std::uint64_t{1} << 24 | std::uint64_t{1} << 19;  // all, halves
  static std::uint64_t read() {
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr std::uint64_t kFlushes = 0;
  static std::uint64_t read() { return 0; }
  static void write(std::uint64_t) {}
#endif

  const std::uint64_t before_;
};

}  // namespace paceline
