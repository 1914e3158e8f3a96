#include "measure/codecs.hpp"

#include <time.h>

#include <cstring>

namespace paceline {
namespace {

std::int64_t cpu_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <typename Call>
std::int64_t cpu_time(int calls, Call&& call) {
  const std::int64_t begin = cpu_nanoseconds();
  for (int i = 0; i < calls; ++i) call();
  return cpu_nanoseconds() - begin;
}

}  // namespace

std::int64_t time_encode(Codec codec, DType dtype, const std::byte* in, std::size_t elements, std::byte* out,
                         int calls) {
  return cpu_time(calls, [&] { encode(codec, dtype, in, elements, out); });
}

std::int64_t time_decode(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out, std::size_t elements,
                         int calls) {
  bool whole = true;
  const std::int64_t spent = cpu_time(calls, [&] { whole &= decode(codec, dtype, in, out, elements); });
  return whole ? spent : -1;
}

std::int64_t time_copy(const std::byte* in, std::byte* out, std::size_t bytes, int calls) {
  return cpu_time(calls, [&] { std::memcpy(out, in, bytes); });
}

}  // namespace paceline
