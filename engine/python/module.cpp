// The nanobind module: conversions and nothing else. Every call that may wait gives up the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "kernel/reduce.hpp"
#include "link/shm.hpp"
#include "memory/remote.hpp"
#include "progress/collectives.hpp"
#include "python/bindings.hpp"
#include "python/buffer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace paceline {
namespace {

using WireReduce = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::vector<int>, int>;
using WirePlan = std::tuple<std::int64_t, std::string, bool, std::int64_t, std::vector<std::vector<WireReduce>>>;
using WirePlans = std::map<std::string, std::vector<WirePlan>>;
using WireBuffer = std::pair<Address, std::size_t>;

Mode mode_of(int number) {
  if (number < 0 || number > 2) throw Failure(ErrorKind::invalid, "no such mode: " + std::to_string(number));
  return static_cast<Mode>(number);
}

Collective collective_of(const std::string& name) {
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i)
    if (kCollectiveNames[i] == name) return static_cast<Collective>(i);
  throw Failure(ErrorKind::invalid, "no such collective: " + name);
}

Plan plan_from(const WirePlan& wire) {
  // A chunk costs every rank some messages and some memory: a slip of the pen must not make billions of them.
  constexpr std::int64_t kSmallestChunk = 4096;
  const auto& [limit, name, one_shot, chunk, levels] = wire;
  if (chunk < 0 || (chunk > 0 && chunk < kSmallestChunk))
    throw Failure(ErrorKind::invalid, "a plan's chunk must be 0 or at least " + std::to_string(kSmallestChunk) +
                                          " bytes, got " + std::to_string(chunk));
  Plan plan{limit, name, one_shot, {}, static_cast<std::size_t>(chunk)};
  for (const auto& wire_level : levels) {
    Level& level = plan.levels.emplace_back();
    for (const auto& [begin, begin_of, end, end_of, holders, owner] : wire_level) {
      if (begin < 0 || begin_of <= 0 || end < begin / begin_of || end_of <= 0)
        throw Failure(ErrorKind::invalid, "a plan's range must lie within 0 and 1");
      level.push_back({{begin, begin_of}, {end, end_of}, holders, owner});
    }
  }
  return plan;
}

std::map<std::string, std::vector<Plan>, std::less<>> plans_from(const WirePlans& wire) {
  std::map<std::string, std::vector<Plan>, std::less<>> plans;
  for (const auto& [collective, choices] : wire)
    for (const auto& choice : choices) plans[collective].push_back(plan_from(choice));
  return plans;
}

std::vector<Buffer> buffers_from(const std::vector<WireBuffer>& wire) {
  std::vector<Buffer> buffers;
  for (const auto& [address, count] : wire) buffers.push_back({memory(address), count});
  return buffers;
}

struct PyOperation {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Group> group;
  nb::object failed;
  Handle operation;
};

nb::object give(const PyGroup& self, Handle operation) {
  if (!operation) return nb::none();
  return nb::cast(PyOperation{self.engine, self.group, self.failed, std::move(operation)});
}

// Runs a call that may wait. If a signal handler raised meanwhile (see `signal_raised`), that is what comes out.
template <typename Self, typename Call>
auto without_gil(const Self& self, Call&& call) {
  try {
    const nb::gil_scoped_release no_gil;
    return call();
  } catch (const Failure& failure) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (failure.kind != ErrorKind::invalid && !self.failed.is_none()) self.failed(failure.what());
    throw;
  }
}

// Lets Python's signal handlers run in the main thread while it waits here; true if one of them raised.
bool signal_raised() {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

template <typename Call>
nb::object released(const PyGroup& self, Call&& call) {
  return give(self, without_gil(self, std::forward<Call>(call)));
}

PyGroup make_group(const std::shared_ptr<Engine>& engine, std::uint64_t channel, int rank,
                   const std::vector<int>& peers, double timeout, const WirePlans& wire, nb::object failed) {
  auto plans = plans_from(wire);
  std::shared_ptr<Group> group;
  {
    const nb::gil_scoped_release no_gil;
    group = engine->add_group(channel, rank, peers, std::chrono::duration<double>(timeout), std::move(plans));
  }
  return {engine, std::move(group), std::move(failed)};
}

nb::list events(Engine& self, std::uint64_t after) {
  std::vector<Event> snapshot;
  {
    const nb::gil_scoped_release no_gil;
    snapshot = self.events(after);
  }
  static constexpr std::array<const char*, 3> states = {"running", "done", "failed"};
  nb::list rows;
  for (const Event& e : snapshot) {
    rows.append(nb::make_tuple(
        e.id, e.channel, e.sequence, kCollectiveNames[static_cast<std::size_t>(e.what.collective)],
        kDTypeNames[static_cast<std::size_t>(e.what.dtype)], kOpNames[static_cast<std::size_t>(e.what.op)], e.bytes,
        e.algorithm, e.link, e.enqueued_ns, e.started_ns, e.ended_ns, states[static_cast<std::size_t>(e.state)]));
  }
  return rows;
}

nb::list waits(Engine& self) {
  std::vector<Wait> found;
  {
    const nb::gil_scoped_release no_gil;
    found = self.waits();
  }
  nb::list rows;
  for (const Wait& wait : found)
    rows.append(nb::make_tuple(wait.operation, wait.time.count(), wait.thread, wait.what, wait.missing));
  return rows;
}

// By ErrorKind. They live as long as the interpreter, which is why nothing here owns them.
std::array<PyObject*, 6> error_types{};

void bind_errors(nb::module_& m) {
  const auto add = [&](ErrorKind kind, const char* name, PyObject* base) {
    PyObject* type = PyErr_NewException((std::string("paceline._engine.") + name).c_str(), base, nullptr);
    m.attr(name) = nb::borrow(type);
    return error_types[static_cast<std::size_t>(kind)] = type;
  };
  PyObject* base = add(ErrorKind::none, "CommunicationError", PyExc_RuntimeError);
  add(ErrorKind::peer_lost, "PeerLost", base);
  add(ErrorKind::mismatch, "Mismatch", base);
  add(ErrorKind::timeout, "Timeout", base);
  add(ErrorKind::aborted, "Aborted", base);
  error_types[static_cast<std::size_t>(ErrorKind::invalid)] = PyExc_ValueError;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& failure) {
      PyErr_SetString(error_types[static_cast<std::size_t>(failure.kind)], failure.what());
    }
  });
}

void bind_group(nb::module_& m) {
  nb::class_<PyGroup>(m, "Group")
      .def_prop_ro("rank", [](const PyGroup& self) { return self.group->rank; })
      .def_prop_ro("size", [](const PyGroup& self) { return self.group->size(); })
      .def_prop_ro("channel", [](const PyGroup& self) { return self.group->channel; })
      .def_prop_ro("sequence", [](const PyGroup& self) { return self.group->sequence(); })
      .def_prop_ro("link", [](const PyGroup& self) { return std::string(self.group->link_name); })
      .def("all_reduce",
           [](PyGroup& self, Address data, std::size_t count, int dtype, int op, double factor, int mode) {
             return released(self, [&] {
               return all_reduce(*self.engine, *self.group, memory(data), count, dtype_of(dtype), op_of(op), factor,
                                 mode_of(mode));
             });
           })
      // The way of nearly every call of the raw face; false if the array needs to be looked at more closely.
      .def("all_reduce_array",
           [](PyGroup& self, nb::handle array, int op, double factor) {
             const PythonBuffer buffer(array, true);
             if (!buffer) return false;
             without_gil(self, [&] {
               return all_reduce(*self.engine, *self.group, buffer.data(), buffer.count(), buffer.dtype(), op_of(op),
                                 factor, Mode::blocking);
             });
             return true;
           })
      .def("broadcast",
           [](PyGroup& self, Address data, std::size_t count, int dtype, int root, int mode) {
             return released(self, [&] {
               return broadcast(*self.engine, *self.group, memory(data), count, dtype_of(dtype), root, mode_of(mode));
             });
           })
      .def("reduce",
           [](PyGroup& self, Address data, std::size_t count, int dtype, int op, double factor, int root, int mode) {
             return released(self, [&] {
               return reduce(*self.engine, *self.group, memory(data), count, dtype_of(dtype), op_of(op), factor, root,
                             mode_of(mode));
             });
           })
      .def("all_gather",
           [](PyGroup& self, Address source, Address data, std::size_t count, int dtype, int mode) {
             return released(self, [&] {
               return all_gather(*self.engine, *self.group, memory(source), memory(data), count, dtype_of(dtype),
                                 mode_of(mode));
             });
           })
      .def(
          "reduce_scatter",
          [](PyGroup& self, Address source, Address to, std::size_t count, int dtype, int op, double factor, int mode) {
            return released(self, [&] {
              return reduce_scatter(*self.engine, *self.group, memory(source), memory(to), count, dtype_of(dtype),
                                    op_of(op), factor, mode_of(mode));
            });
          })
      .def("exchange",
           [](PyGroup& self, const std::string& collective, const std::vector<WireBuffer>& sends,
              const std::vector<WireBuffer>& recvs, int dtype, int root, int mode) {
             const auto out = buffers_from(sends);
             const auto in = buffers_from(recvs);
             return released(self, [&] {
               return exchange(*self.engine, *self.group, collective_of(collective), out, in, dtype_of(dtype), root,
                               mode_of(mode));
             });
           })
      .def("barrier",
           [](PyGroup& self, int mode) {
             return released(self, [&] { return barrier(*self.engine, *self.group, mode_of(mode)); });
           })
      .def("send",
           [](PyGroup& self, Address data, std::size_t count, int dtype, int peer, int tag, int mode) {
             return released(self, [&] {
               return send(*self.engine, *self.group, memory(data), count, dtype_of(dtype), peer, tag, mode_of(mode));
             });
           })
      .def("recv",
           [](PyGroup& self, Address data, std::size_t count, int dtype, int peer, int tag, int mode) {
             return released(self, [&] {
               return receive(*self.engine, *self.group, memory(data), count, dtype_of(dtype), peer, tag,
                              mode_of(mode));
             });
           })
      .def("set_plans",
           [](PyGroup& self, const WirePlans& wire) {
             auto plans = plans_from(wire);
             const nb::gil_scoped_release no_gil;
             self.engine->set_plans(*self.group, std::move(plans));
           })
      .def(
          "set_pace",
          [](PyGroup& self, double bytes_per_second) { self.engine->set_pace(*self.group, bytes_per_second); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "set_timeout",
          [](PyGroup& self, double seconds) {
            self.engine->set_timeout(*self.group, std::chrono::duration<double>(seconds));
          },
          Release())
      .def(
          "abort", [](PyGroup& self, const std::string& reason) { self.engine->abort(*self.group, reason); }, Release())
      .def("close", [](PyGroup& self) { self.engine->remove_group(*self.group); }, Release());
}

}  // namespace
}  // namespace paceline

NB_MODULE(_engine, m) {
  using namespace paceline;
  nb::set_leak_warnings(false);
  bind_errors(m);

  nb::dict dtypes;
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i) dtypes[nb::str(kDTypeNames[i].data())] = i;
  nb::dict ops;
  for (std::size_t i = 0; i < kOpNames.size(); ++i) ops[nb::str(kOpNames[i].data())] = i;
  m.attr("DTYPES") = dtypes;
  m.attr("OPS") = ops;
  nb::list sizes;
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i) sizes.append(size_of(static_cast<DType>(i)));
  m.attr("SIZES") = sizes;
  m.attr("BLOCKING") = 0;
  m.attr("ASYNC") = 1;
  m.attr("NOTIFY") = 2;

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
  m.def("isa", [] { return std::string(kernels().isa); });

  bind_measure(m);
  bind_policies(m);
  bind_arena(m);
  bind_group(m);
  bind_coordinator(m);

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
      .def("error", [](PyOperation& self) {
        return self.engine->is_over(*self.operation) ? self.operation->error().message : std::string();
      });

  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, std::shared_ptr<Arena> arena, double spin_us, std::string description) {
            new (self) Engine(std::move(arena), std::chrono::nanoseconds(static_cast<std::int64_t>(spin_us * 1000)),
                              std::move(description), signal_raised);
          },
          "arena"_a, "spin_us"_a, "description"_a)
      .def(
          "add_tcp_peer",
          [](Engine& self, int fd, std::string description) {
            return self.add_tcp_peer(Descriptor(fd), std::move(description));
          },
          "fd"_a, "description"_a, Release())
      .def(
          "add_shm_peer",
          [](Engine& self, int fd, int memory_fd, int arena_fd, int side, int pid, bool readable,
             std::string description) {
            const Descriptor memory(memory_fd);
            ShmPeer reach{Descriptor(fd), map_link_memory(memory), PeerArena(Descriptor(arena_fd)), side, pid,
                          readable};
            if (side != 0 && side != 1) throw Failure(ErrorKind::invalid, "side must be 0 or 1");
            return self.add_shm_peer(std::move(reach), std::move(description));
          },
          "fd"_a, "memory_fd"_a, "arena_fd"_a, "side"_a, "pid"_a, "readable"_a, "description"_a, Release())
      .def("group", &make_group, "channel"_a, "rank"_a, "peers"_a, "timeout"_a, "plans"_a,
           "failed"_a.none() = nb::none())
      .def("serve", &Engine::serve, Release())
      .def("close", &Engine::close, Release())
      .def("events", &events, "after"_a = 0)
      .def(
          "exposed_ns", [](Engine& self) { return self.exposed().count(); }, Release())
      .def("waits", &waits);
}
