// Shows coordinators, and the requests submitted to them, to Python.
#include "coordinator/coordinator.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "python/bindings.hpp"
#include "python/devices.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

// What allocates memory for a request, as Python has given it.
class PyAllocate {
 public:
  explicit PyAllocate(nb::object function) : function_(std::move(function)) {}
  PyAllocate(const PyAllocate&) = delete;
  PyAllocate& operator=(const PyAllocate&) = delete;
  // The engine lets go of it in threads of its own.
  ~PyAllocate() {
    if (Py_IsInitialized() == 0) {
      function_.release();
      return;
    }
    const WithGil gil;
    function_.reset();
  }

  // Throws std::runtime_error with what Python says.
  device::Address operator()(const std::vector<std::size_t>& counts, device::StreamHandle stream) const {
    const WithGil gil;
    try {
      return nb::cast<device::Address>(function_(counts, reinterpret_cast<Address>(stream)));
    } catch (nb::python_error& error) {
      throw std::runtime_error(nb::str(error.value()).c_str());
    }
  }

 private:
  nb::object function_;
};

std::shared_ptr<const Allocate> allocate_by(nb::object function) {
  if (function.is_none()) return nullptr;
  return std::make_shared<const Allocate>(
      [by = std::make_shared<const PyAllocate>(std::move(function))](
          const std::vector<std::size_t>& counts, device::StreamHandle stream) { return (*by)(counts, stream); });
}

struct PyRequest {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Group> control;
  nb::object failed;
  std::shared_ptr<Coordinator> coordinator;
  std::shared_ptr<PendingRequest> pending;
};

Synchronise::Wait wait_of(const std::string& name) {
  if (name == "spin") return Synchronise::Wait::spin;
  if (name == "yield") return Synchronise::Wait::yield;
  throw Failure(ErrorKind::invalid, "no such wait: " + name + "; use spin or yield");
}

PyCoordinator make(const PyGroup& control, const PyGroup& data, const std::string& policy, std::uint64_t fusion_bytes,
                   const std::string& wait, double cycle_seconds, std::uint32_t cache_capacity,
                   std::uint32_t sleep_every, std::vector<int> machine_of) {
  const PolicyOptions options{fusion_bytes, wait_of(wait), cycle_seconds, cache_capacity, sleep_every};
  auto made =
      std::make_shared<Coordinator>(control.engine, control.group, data.group, policy, options, std::move(machine_of));
  return {control.engine, control.group, control.failed, std::move(made)};
}

template <typename Call>
PyRequest submitted(const PyCoordinator& self, Call&& call) {
  try {
    return {self.engine, self.control, self.failed, self.coordinator, call()};
  } catch (const Failure& failure) {
    raise(failure, self.failed, !self.control->error);
  }
}

// The GIL is kept, because this takes less time than to give it up and get it back.
// With `trial` the request is checked alone, and nothing is submitted.
std::optional<PyRequest> submit(PyCoordinator& self, std::string_view name, const CollectiveCall& call,
                                std::string_view shape, double prescale, double postscale, int priority,
                                std::pair<std::uint64_t, std::uint32_t> bundle, std::vector<std::size_t> counts,
                                PyDevices* devices, device::Ordinal ordinal, Address stream, nb::object allocate,
                                bool trial) {
  RequestArguments arguments{.name = name,
                             .call = call,
                             .shape = shape,
                             .counts = std::move(counts),
                             .prescale = prescale,
                             .postscale = postscale,
                             .priority = priority,
                             .bundle = {bundle.first, bundle.second}};
  if (devices != nullptr) {
    arguments.on_device = {devices->shared(), ordinal, reinterpret_cast<device::StreamHandle>(stream)};
    arguments.allocate = allocate_by(std::move(allocate));
    devices->close_with_engine(self.coordinator);
  }
  if (trial) {
    submitted(self, [&] { return self.coordinator->check(arguments), nullptr; });
    return std::nullopt;
  }
  return submitted(self, [&] { return self.coordinator->submit(arguments); });
}

void wait(PyRequest& self, std::optional<double> timeout) {
  try {
    const WithoutGil no_gil;
    self.engine->wait(*self.pending, std::chrono::duration<double>(timeout.value_or(-1.0)));
  } catch (const Failure& failure) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    raise(failure, self.failed, !self.control->error);
  }
}

nb::object output(const PyRequest& self) {
  const auto& memory = self.pending->output;
  return memory != nullptr && self.pending->over() ? nb::cast(PyArenaBuffer{memory}) : nb::none();
}

nb::tuple counters(PyCoordinator& self) {
  const auto p = self.coordinator->counters();
  const auto t = self.coordinator->totals();
  return nb::make_tuple(p.cycles, p.synchronisations, p.messages, p.cache_hits, p.cache_misses, p.issues, p.issued,
                        p.deviations, t.batches, t.fused_bytes, t.background_cpu_ns, t.submitting_ns, t.spin_ns,
                        t.oversleep_ns, t.sleeps, t.negotiation_ns, t.longest_negotiation_ns, t.negotiations);
}

nb::list records(PyCoordinator& self, std::uint64_t after) {
  std::vector<Record> found;
  {
    const WithoutGil no_gil;
    found = self.coordinator->records(after);
  }
  nb::list rows;
  for (const Record& r : found) {
    rows.append(nb::make_tuple(r.request->name, kCollectiveNames[static_cast<std::size_t>(r.request->what.collective)],
                               r.request->bytes, r.batch, r.submitted_ns, r.negotiated_ns, r.packed_ns, r.reduced_ns,
                               r.done_ns, r.last, r.number));
  }
  return rows;
}

}  // namespace

void bind_coordinator(nb::module_& m) {
  nb::class_<PyRequest>(m, "Request")
      .def("done",
           [](PyRequest& self) {
             const bool over = self.engine->is_over(*self.pending);
             if (!over) self.coordinator->polled(*self.pending);
             return over;
           })
      .def("wait", &wait, "timeout"_a = nb::none())
      .def_prop_ro("output", &output)
      .def_prop_ro("counts", [](const PyRequest& self) { return nb::tuple(nb::cast(self.pending->counts)); })
      .def_prop_ro("last", [](const PyRequest& self) { return self.pending->last_to_join; })
      .def_prop_ro("id", [](PyRequest& self) {
        self.coordinator->announce(*self.pending);
        return self.pending->id;
      });

  nb::class_<PyCoordinator>(m, "Coordinator")
      .def("__init__",
           [](PyCoordinator* self, const PyGroup& control, const PyGroup& data, const std::string& policy,
              std::uint64_t fusion_bytes, const std::string& wait, double cycle_seconds, std::uint32_t cache_capacity,
              std::uint32_t sleep_every, std::vector<int> machine_of) {
             new (self) PyCoordinator(make(control, data, policy, fusion_bytes, wait, cycle_seconds, cache_capacity,
                                           sleep_every, std::move(machine_of)));
           })
      .def_prop_ro("board_offset", [](PyCoordinator& self) { return self.coordinator->board_offset(); })
      .def(
          "open", [](PyCoordinator& self, std::uint64_t offset) { self.coordinator->open(offset); }, Release())
      .def("submit", &submit, "name"_a, "call"_a, "shape"_a = "", "prescale"_a = 1.0, "postscale"_a = 1.0,
           "priority"_a = 0, "bundle"_a = std::pair<std::uint64_t, std::uint32_t>{},
           "counts"_a = std::vector<std::size_t>{}, "devices"_a.none() = nb::none(), "ordinal"_a = 0, "stream"_a = 0,
           "allocate"_a = nb::none(), "trial"_a = false)
      .def("join", [](PyCoordinator& self) { return submitted(self, [&] { return self.coordinator->join(); }); })
      .def(
          "set_order",
          [](PyCoordinator& self, const std::vector<std::vector<std::string>>& buffers) {
            self.coordinator->set_order(buffers);
          },
          Release())
      .def(
          "tune", [](PyCoordinator& self, std::uint64_t fusion_bytes) { self.coordinator->tune(fusion_bytes); },
          Release())
      .def(
          "use",
          [](PyCoordinator& self, const std::string& name, const std::vector<std::vector<std::string>>& buffers) {
            self.coordinator->use(name, buffers);
          },
          "name"_a, "buffers"_a = std::vector<std::vector<std::string>>{}, Release())
      .def("in_use",
           [](PyCoordinator& self) {
             const Policy::Use use = self.coordinator->in_use();
             return nb::make_tuple(use.name, use.refused);
           })
      .def("counters", &counters)
      .def("records", &records, "after"_a = 0)
      .def("warnings", [](PyCoordinator& self) { return self.coordinator->warnings(); })
      .def_prop_ro("warnings_id", [](PyCoordinator& self) { return self.coordinator->warnings_id(); })
      .def_prop_ro("stops_id", [](PyCoordinator& self) { return self.coordinator->stops_id(); })
      .def("close", [](PyCoordinator& self) { self.coordinator->close(); }, Release());
}

}  // namespace paceline
