// How much a test tries in which build. In the plain one it tries all that it has. Sanitizers take ten times as long
// and look for less. AddressSanitizer (with UBSan) looks for memory, so that there every way through the code and every
// length at which something ends has to be tried, but nothing many times. ThreadSanitizer looks for races, so that
// there threads have to meet in every way that they can, but neither over every type nor over long data.
#pragma once

namespace paceline::test {

template <typename T>
constexpr T sweep([[maybe_unused]] T all, [[maybe_unused]] T for_memory, [[maybe_unused]] T for_races) {
#if defined(__SANITIZE_THREAD__)
  return for_races;
#elif defined(__SANITIZE_ADDRESS__)
  return for_memory;
#else
  return all;
#endif
}

}  // namespace paceline::test
