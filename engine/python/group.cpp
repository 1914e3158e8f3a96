// Shows groups, and the operations in them, to Python.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "progress/collectives.hpp"
#include "python/bindings.hpp"
#include "python/plans.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

Mode mode_of(int number) {
  if (number < 0 || number > 2) throw Failure(ErrorKind::invalid, "no such mode: " + std::to_string(number));
  return static_cast<Mode>(number);
}

// See `_engine.pyi`.
nb::list ways(const PyGroup& self) {
  const auto found = without_gil(self, [&] { return self.engine->methods(*self.group); });
  nb::list sizes;
  for (const MethodTuner::Size& size : found) {
    nb::list tried;
    for (const MethodTuner::Tried& one : size.tried) {
      const char* name = one.method.kind == Method::Kind::fetched ? "fetched" : "staged";
      tried.append(nb::make_tuple(name, one.method.block, one.ns_per_byte));
    }
    sizes.append(nb::make_tuple(size.from, size.settled(), size.best, std::move(tried)));
  }
  return sizes;
}

nb::tuple large_calls(const PyGroup& self, std::uint64_t first) {
  const LargeCalls::Snapshot found = without_gil(self, [&] { return self.engine->large_calls(*self.group, first); });
  nb::list calls;
  for (const LargeCalls::Call& call : found.calls)
    calls.append(nb::make_tuple(kCollectiveNames[static_cast<std::size_t>(call.collective)], call.bytes, call.seconds));
  return nb::make_tuple(found.count, found.most_under_way, calls);
}

// `look` may refer to the group that it is called for: Python's garbage collector must see that.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<PyGroup>(self)->failed.ptr());
  Py_VISIT(nb::inst_ptr<PyGroup>(self)->look.ptr());
  return 0;
}

int clear(PyObject* self) {
  nb::inst_ptr<PyGroup>(self)->look.reset();
  return 0;
}

PyType_Slot kGroupSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

nb::object start_call(PyGroup& self, const CollectiveCall& call, int mode) {
  look_before(self, call);
  Handle operation = without_gil(self, [&] { return start(*self.engine, *self.group, call, mode_of(mode)); });
  return operation ? give(self, std::move(operation)) : nb::none();
}

}  // namespace

void bind_group(nb::module_& m) {
  auto group = nb::class_<PyGroup>(m, "Group", nb::type_slots(kGroupSlots));
  bind_at_once(group);
  group.def_prop_ro("rank", [](const PyGroup& self) { return self.group->rank; })
      .def_prop_ro("size", [](const PyGroup& self) { return self.group->size(); })
      .def_prop_ro("channel", [](const PyGroup& self) { return self.group->channel; })
      .def_prop_ro("sequence", [](const PyGroup& self) { return self.group->sequence(); })
      .def_prop_ro("link", [](const PyGroup& self) { return std::string(self.group->link_name); })
      .def_prop_ro("codec", [](const PyGroup& self) { return static_cast<int>(self.group->codec); })
      .def_prop_ro("coded_from", [](const PyGroup& self) { return self.group->coded_from; })
      .def(
          "set_codec",
          [](PyGroup& self, int codec, std::size_t from) {
            self.engine->set_codec(*self.group, codec_of(codec), from);
          },
          "codec"_a, "from_bytes"_a = 0)
      .def("ways", &ways)
      .def("start", &start_call)
      .def("set_plans",
           [](PyGroup& self, const WirePlans& wire) {
             auto plans = plans_from(wire);
             const WithoutGil no_gil;
             self.engine->set_plans(*self.group, std::move(plans));
           })
      .def(
          "count_large",
          [](PyGroup& self, std::uint64_t stop, nb::object look) {
            self.engine->count_large(*self.group, stop);
            self.look = look.is_none() ? nb::object() : std::move(look);
          },
          "stop"_a, "look"_a.none() = nb::none())
      .def("large_calls", &large_calls)
      .def(
          "stop_before", [](PyGroup& self, std::uint64_t number) { self.engine->stop_before(*self.group, number); },
          Release())
      .def("finish_large", [](PyGroup& self) { without_gil(self, [&] { self.engine->finish_large(*self.group); }); })
      .def(
          "set_machines",
          [](PyGroup& self, std::vector<int> machines) { self.engine->set_machines(*self.group, std::move(machines)); })
      .def(
          "set_pace",
          [](PyGroup& self, double inbound, std::vector<double> outbound) {
            self.engine->set_pace(*self.group, inbound, std::move(outbound));
          },
          nb::call_guard<WithoutGil>())
      .def_prop_ro("pace",
                   [](const PyGroup& self) {
                     const double inbound = self.group->pace;
                     return std::pair(inbound > 0 ? inbound : std::numeric_limits<double>::infinity(),
                                      self.group->send_rates);
                   })
      .def(
          "received", [](PyGroup& self, int rank) { return self.engine->received(*self.group, rank); },
          nb::call_guard<WithoutGil>())
      .def(
          "set_timeout",
          [](PyGroup& self, double seconds) {
            self.engine->set_timeout(*self.group, std::chrono::duration<double>(seconds));
          },
          Release())
      .def(
          "abort", [](PyGroup& self, const std::string& reason) { self.engine->abort(*self.group, reason); }, Release())
      .def(
          "refuse",
          [](PyGroup& self, std::string_view collective, const std::string& reason) {
            self.engine->refuse(*self.group, collective_of(collective), reason);
          },
          "collective"_a, "reason"_a, Release())
      .def("close", [](PyGroup& self) { without_gil(self, [&] { self.engine->remove_group(*self.group); }); });

  nb::class_<PyOperation>(m, "Operation")
      .def_prop_ro("id", [](const PyOperation& self) { return self.operation->id; })
      .def_prop_ro("source", [](const PyOperation& self) { return self.operation->source(); })
      .def(
          "done", [](PyOperation& self) { return self.engine->is_over(*self.operation); }, Release())
      .def(
          "wait",
          [](PyOperation& self, double timeout) {
            without_gil(self, [&] { self.engine->wait(*self.operation, std::chrono::duration<double>(timeout)); });
          },
          "timeout"_a = -1.0)
      .def(
          "notify", [](PyOperation& self) { return self.engine->notify(*self.operation); }, Release())
      .def("error", [](PyOperation& self) {
        return self.engine->is_over(*self.operation) ? self.operation->error().message : std::string();
      });
}

}  // namespace paceline
