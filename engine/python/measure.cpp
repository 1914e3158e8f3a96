// Shows Python what benchmarks compare the engine with.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "measure/kernels.hpp"
#include "measure/limit.hpp"
#include "python/bindings.hpp"

namespace paceline {

using namespace nb::literals;

void bind_measure(nb::module_& m) {
  const auto limit = [&](const char* name, LimitTimes (*measure)(int, std::size_t, int)) {
    m.def(
        name,
        [measure](int ranks, std::size_t bytes, int iterations) {
          LimitTimes found = measure(ranks, bytes, iterations);
          return std::tuple(std::move(found.times), found.cpu, found.wrong);
        },
        "ranks"_a, "bytes"_a, "iterations"_a, Release());
  };
  limit("limit_all_reduce", limit_all_reduce);
  limit("limit_sendrecv", limit_sendrecv);
  m.def(
      "time_reduce",
      [](int dtype, int op, double divisor, Address out, Address a, Address b, std::size_t count, int calls) {
        return time_reduce({dtype_of(dtype), op_of(op), divisor}, memory(out), memory(a), memory(b), count, calls);
      },
      "dtype"_a, "op"_a, "divisor"_a, "out"_a, "a"_a, "b"_a, "count"_a, "calls"_a, Release());
  m.def(
      "time_add",
      [](Address out, Address a, Address b, std::size_t count, int calls) {
        return time_add(reinterpret_cast<float*>(out), reinterpret_cast<const float*>(a),
                        reinterpret_cast<const float*>(b), count, calls);
      },
      "out"_a, "a"_a, "b"_a, "count"_a, "calls"_a, Release());
}

}  // namespace paceline
