// The nanobind module: conversions and nothing else. Every call that may wait gives up the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "calibration/named.hpp"
#include "failure/ending_signal.hpp"
#include "kernel/reduce.hpp"
#include "link/shm.hpp"
#include "memory/remote.hpp"
#include "python/bindings.hpp"
#include "python/buffer.hpp"
#include "python/errors.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// `sys._current_frames()`. CPython 3.11 before 3.11.9 holds a lock in it that every thread needs to begin and end, and
// may collect garbage there: a callback of the collection that gives up the GIL then stops the process for good
// (python/cpython#106883). Here nothing is collected, and no other thread runs in between.
nb::object current_frames() {
  const nb::object frames = nb::module_::import_("sys").attr("_current_frames");
  const bool collects = PyGC_Disable() != 0;
  auto found = nb::steal(PyObject_CallNoArgs(frames.ptr()));
  if (collects) PyGC_Enable();
  if (!found.is_valid()) nb::raise_python_error();
  return found;
}

}  // namespace

NB_MODULE(_engine, m) {
  using namespace paceline;
  nb::set_leak_warnings(false);
  bind_errors(m);

  nb::dict dtypes;
  nb::dict moved;
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i)
    (is_combined(static_cast<DType>(i)) ? dtypes : moved)[nb::str(kDTypeNames[i].data())] = i;
  nb::dict ops;
  for (std::size_t i = 0; i < kOpNames.size(); ++i) ops[nb::str(kOpNames[i].data())] = i;
  m.attr("DTYPES") = dtypes;
  m.attr("MOVED_DTYPES") = moved;
  m.attr("PARTS") = static_cast<int>(DType::parts);
  m.attr("PERHAPS_PARTS") = static_cast<int>(DType::perhaps_parts);
  m.attr("OPS") = ops;
  nb::list sizes;
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i) sizes.append(size_of(static_cast<DType>(i)));
  m.attr("SIZES") = sizes;
  nb::dict functions;
  functions["reduce"] = reinterpret_cast<Address>(kernels().reduce);
  functions["encode"] = reinterpret_cast<Address>(&encode);
  functions["decode"] = reinterpret_cast<Address>(&decode);
  m.attr("FUNCTIONS") = functions;
  m.attr("LARGE_CALL") = calibration::kLargeCall;
  m.attr("BLOCKING") = static_cast<int>(Mode::blocking);
  m.attr("ASYNC") = static_cast<int>(Mode::async);
  m.attr("NOTIFY") = static_cast<int>(Mode::notify);

  m.def("create_link_memory", [] { return create_link_memory().release(); });
  m.def("probe_address", &probe_address);
  m.def("can_read", [](int pid, Address address) { return can_read(pid, address); }, "pid"_a, "address"_a);
  m.def("allow_reads", &allow_reads);
  m.def("look", [](nb::handle array, bool writable) -> nb::object {
    const PythonBuffer buffer(array, writable);
    if (!buffer) return nb::none();
    return nb::make_tuple(reinterpret_cast<Address>(buffer.data()), buffer.count(), static_cast<int>(buffer.dtype()));
  });
  m.def("supports", [](int dtype, int op) { return supports(dtype_of(dtype), op_of(op)); }, "dtype"_a, "op"_a);
  m.def("current_frames", &current_frames);
  m.def(
      "hear_ending_signals",
      [](const std::vector<int>& signals, int seconds) {
        return hear_ending_signals(signals, std::chrono::seconds(seconds)).release();
      },
      "signals"_a, "seconds"_a);
  m.def("stop_hearing_ending_signals", &stop_hearing_ending_signals);
  m.def("end_by", &end_by, "signal"_a, Release());
  m.def("isa", [] { return std::string(kernels().isa); });

  bind_future_values(m);
  bind_call(m);
  bind_codec(m);
  bind_arena(m);
  bind_group(m);
  bind_mpi(m);
  bind_coordinator(m);
  bind_prepared(m);
  bind_device(m);
  bind_engine(m);
  bind_programs(m);
  bind_simulate(m);
}
