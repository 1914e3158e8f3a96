#include "delays/delays.hpp"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

namespace paceline::delays {
namespace {

std::uint64_t mixed(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

std::optional<std::uint64_t> seed() {
  static const std::optional<std::uint64_t> once = []() -> std::optional<std::uint64_t> {
    const char* const text = std::getenv("PACELINE_DELAYS");
    if (text == nullptr || *text == '\0') return std::nullopt;
    return std::strtoull(text, nullptr, 10);
  }();
  return once;
}

std::uint64_t next(std::uint64_t seed) {
  static thread_local std::uint64_t state = mixed(seed ^ static_cast<std::uint64_t>(::gettid()));
  return state = mixed(state);
}

}  // namespace

void stay(Between steps) {
  const auto given = seed();
  if (!given) return;
  const bool often = mixed(*given * 64 + static_cast<std::uint64_t>(steps)) % 4 == 0;
  const std::uint64_t drawn = next(*given);
  const std::uint64_t kind = drawn % 1024;
  const auto length = static_cast<std::int64_t>(drawn >> 32);
  if (kind < (often ? 2U : 0U)) {
    std::this_thread::sleep_for(std::chrono::microseconds(500 + length % 4000));
  } else if (kind < (often ? 64U : 4U)) {
    std::this_thread::sleep_for(std::chrono::microseconds(1 + length % 100));
  } else if (kind < (often ? 256U : 32U)) {
    ::sched_yield();
  }
}

}  // namespace paceline::delays
