// What kernels read and write in tests, between guards, and the start of a kernel on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/kernels/launch.hpp"
#include "tests/check.hpp"
#include "tests/device/kernels/runner.hpp"

namespace paceline::test {

inline constexpr std::byte kGuard{0xA5};
inline constexpr std::size_t kGuarded = 64;      // bytes before and after what a kernel may write
inline constexpr unsigned kMultiprocessors = 2;  // so that threads have more than one vector each

using Bytes = std::vector<std::byte>;

// Memory that lies `offset` bytes after a multiple of 64, between guards.
struct Buffer {
  KernelVector<std::byte> all;
  std::size_t begin;
  std::size_t bytes;

  Buffer(std::size_t size, std::size_t offset) : all(size + 3 * kGuarded + offset, kGuard), bytes(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(all.data());
    begin = kGuarded + (kGuarded - address % kGuarded) % kGuarded + offset;
  }
  std::byte* data() { return all.data() + begin; }
  const std::byte* data() const { return all.data() + begin; }
  Bytes copy() const { return {data(), data() + bytes}; }
  bool guarded() const {
    const auto guards = [](std::byte each) { return each == kGuard; };
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::all_of(all.begin(), first, guards) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(bytes), all.end(), guards);
  }
};

inline void run(const device::Launch& launch, auto& parameters) { run_kernel(launch, &parameters); }

}  // namespace paceline::test
