#include "measure/kernels.hpp"

#include <chrono>

#include "kernel/reduce.hpp"

namespace paceline {
namespace {

template <typename Call>
std::int64_t time(int calls, Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::int64_t time_reduce(const Fold& fold, std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
                         int calls) {
  const std::byte* in[2] = {a, b};
  return time(calls, [&] { kernels().reduce(fold, out, in, 2, count); });
}

std::int64_t time_add(float* out, const float* a, const float* b, std::size_t count, int calls) {
  return time(calls, [&] { kernels().add(out, a, b, count); });
}

}  // namespace paceline
