#include "memory/origin.hpp"

#include <pthread.h>

namespace paceline {

std::atomic<unsigned> Origin::forks = []() noexcept {
  ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return 0U;
}();

}  // namespace paceline
