// Declares what the files of the nanobind module share.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "codec/codec.hpp"
#include "failure/error.hpp"
#include "memory/arena.hpp"
#include "progress/collectives.hpp"
#include "python/errors.hpp"
#include "python/gil.hpp"

namespace paceline {

namespace nb = nanobind;

class Coordinator;

using Address = std::uint64_t;
using Release = nb::call_guard<WithoutGil>;

inline std::byte* memory(Address address) { return reinterpret_cast<std::byte*>(address); }

inline DType dtype_of(int number) {
  const auto dtype = static_cast<DType>(number);
  if (number < 0 || number > 255 || unmarked(dtype) > DType::bytes)
    throw Failure(ErrorKind::invalid, "no such dtype: " + std::to_string(number));
  return dtype;
}

inline Op op_of(int number) {
  if (number < 0 || number >= static_cast<int>(kOpNames.size()))
    throw Failure(ErrorKind::invalid, "no such reduction: " + std::to_string(number));
  return static_cast<Op>(number);
}

inline Codec codec_of(int number) {
  if (number < 0 || number >= static_cast<int>(kCodecNames.size()))
    throw Failure(ErrorKind::invalid, "no such codec: " + std::to_string(number));
  return static_cast<Codec>(number);
}

inline Collective collective_of(std::string_view name) {
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i)
    if (kCollectiveNames[i] == name) return static_cast<Collective>(i);
  throw Failure(ErrorKind::invalid, "no such collective: " + std::string(name));
}

// A group, the engine that it lives in, and a callable that hears of its failures before they are raised.
struct PyGroup {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Group> group;
  nb::object failed;
  nb::object look = {};  // called where all ranks stop before a large collective, see `count_large` in `_engine.pyi`
};

struct PyOperation {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Group> group;
  nb::object failed;
  std::shared_ptr<Operation> operation;
};

// As PyGroup; `control` is the coordinator's control group.
struct PyCoordinator {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Group> control;
  nb::object failed;
  std::shared_ptr<Coordinator> coordinator;
};

inline nb::object give(const PyGroup& self, std::shared_ptr<Operation> operation) {
  return nb::cast(PyOperation{self.engine, self.group, self.failed, std::move(operation)});
}

// Whether all ranks stop before this call, which LargeCalls counts.
inline bool stops_before(const PyGroup& self, const CollectiveCall& call) {
  const auto& calls = self.group->large_calls;
  return calls != nullptr && LargeCalls::counts(call.fingerprint(), bytes_of(*self.group, call)) && calls->stops();
}

// Is called before each call.
inline void look_before(const PyGroup& self, const CollectiveCall& call) {
  if (self.look.is_valid() && stops_before(self, call)) self.look();
}

// Runs a call that may wait. If a signal handler has raised meanwhile (see `signal_raised`), that exception comes out.
template <typename Self, typename Call>
auto without_gil(const Self& self, Call&& call) {
  const auto released = [&] {
    const WithoutGil no_gil;
    return call();
  };
  const auto raise_pending = [] {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  };
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      released();
      raise_pending();
    } else {
      auto result = released();
      raise_pending();
      return result;
    }
  } catch (const Failure& failure) {
    raise_pending();
    raise(failure, self.failed);
  }
}

// A piece of an arena that shows itself as a buffer of bytes.
struct PyArenaBuffer {
  std::shared_ptr<ArenaMemory> memory;
};

void bind_arena(nb::module_& m);
void bind_at_once(nb::class_<PyGroup>& group);
void bind_call(nb::module_& m);
void bind_codec(nb::module_& m);
void bind_coordinator(nb::module_& m);
void bind_device(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_group(nb::module_& m);
void bind_future_values(nb::module_& m);
void bind_mpi(nb::module_& m);
void bind_prepared(nb::module_& m);
void bind_programs(nb::module_& m);
void bind_simulate(nb::module_& m);

}  // namespace paceline
