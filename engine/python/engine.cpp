// Shows the engine of a process to Python.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "link/shm.hpp"
#include "python/bindings.hpp"
#include "python/plans.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

// Lets Python's signal handlers run in the main thread while it waits here. Returns true if one of them has raised.
// Python runs them in no other thread, which therefore need not wait for the GIL.
bool signal_raised() {
  if (::syscall(SYS_gettid) != ::getpid()) return false;
  const WithGil gil;
  return PyErr_CheckSignals() != 0;
}

PyGroup make_group(const std::shared_ptr<Engine>& engine, std::uint64_t channel, int rank,
                   const std::vector<int>& peers, double timeout, const WirePlans& wire, nb::object failed) {
  auto plans = plans_from(wire);
  std::shared_ptr<Group> group;
  {
    const WithoutGil no_gil;
    group = engine->add_group(channel, rank, peers, std::chrono::duration<double>(timeout), std::move(plans));
  }
  return {engine, std::move(group), std::move(failed)};
}

// What no group is asked about before it is raised.
struct Unwatched {
  nb::object failed = nb::none();
};

nb::list events(Engine& self, std::uint64_t after) {
  std::vector<Event> snapshot;
  {
    const WithoutGil no_gil;
    snapshot = self.events(after);
  }
  static constexpr std::array<const char*, 3> states = {"running", "done", "failed"};
  nb::list rows;
  for (const Event& e : snapshot) {
    rows.append(nb::make_tuple(e.id, e.channel, e.sequence,
                               kCollectiveNames[static_cast<std::size_t>(e.what.collective)], name_of(e.what.dtype),
                               kOpNames[static_cast<std::size_t>(e.what.op)], e.bytes, e.algorithm, e.link,
                               e.enqueued_ns, e.started_ns, e.ended_ns, states[static_cast<std::size_t>(e.state)]));
  }
  return rows;
}

nb::list answers(Engine& self) {
  std::vector<Answer> found;
  {
    const WithoutGil no_gil;
    found = self.answers();
  }
  nb::list rows;
  for (const Answer& one : found)
    rows.append(nb::make_tuple(one.who, one.number, one.gone, nb::bytes(one.content.data(), one.content.size())));
  return rows;
}

nb::list questions(Engine& self) {
  std::vector<Question> found;
  {
    const WithoutGil no_gil;
    found = self.questions();
  }
  nb::list rows;
  for (const Question& one : found)
    rows.append(nb::make_tuple(one.peer, one.number, nb::bytes(one.words.data(), one.words.size())));
  return rows;
}

nb::list clocks(Engine& self) {
  std::vector<std::pair<std::string, ClockBounds>> found;
  {
    const WithoutGil no_gil;
    found = self.clocks();
  }
  nb::list rows;
  for (const auto& [who, bounds] : found) rows.append(nb::make_tuple(who, bounds.least, bounds.most));
  return rows;
}

void answer(Engine& self, int peer, std::uint64_t number, const nb::bytes& content) {
  const std::string_view bytes(content.c_str(), content.size());
  const WithoutGil no_gil;
  self.answer({peer, number, {}}, bytes);
}

nb::tuple fate(Engine& self, int peer) {
  Error found;
  {
    const WithoutGil no_gil;
    found = self.fate(peer);
  }
  return nb::make_tuple(found.message, found.culprit);
}

nb::list waits(Engine& self) {
  std::vector<Wait> found;
  {
    const WithoutGil no_gil;
    found = self.waits();
  }
  nb::list rows;
  for (const Wait& wait : found) {
    nb::list missing;
    for (const Missing& one : wait.missing)
      missing.append(nb::make_tuple(one.who, one.last, one.line, one.ago.count()));
    rows.append(nb::make_tuple(wait.operation, wait.time.count(), wait.left.count(), wait.thread, wait.what, missing));
  }
  return rows;
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, std::shared_ptr<Arena> arena, double spin_us, std::string description, int preferred_cpu) {
            new (self) Engine(std::move(arena), std::chrono::nanoseconds(static_cast<std::int64_t>(spin_us * 1000)),
                              std::move(description), signal_raised, preferred_cpu);
          },
          "arena"_a, "spin_us"_a, "description"_a, "preferred_cpu"_a = -1)
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
      .def("fate", &fate, "peer"_a)
      .def("serve", &Engine::serve, Release())
      .def("notifications", &Engine::notifications, Release())
      .def("close", [](Engine& self) { without_gil(Unwatched(), [&] { self.close(); }); })
      .def("events", &events, "after"_a = 0)
      .def(
          "exposed_ns", [](Engine& self) { return self.exposed().count(); }, Release())
      .def("waits", &waits)
      .def("annotate", &Engine::annotate, "operation"_a, "words"_a, Release())
      .def("tell_line", &Engine::tell_line, "line"_a, Release())
      .def("ask", &Engine::ask, "words"_a, Release())
      .def("answers", &answers)
      .def("questions", &questions)
      .def("answer", &answer, "peer"_a, "number"_a, "content"_a)
      .def("clocks", &clocks)
      .def("flush", &Engine::flush, "peer"_a, Release())
      .def("questions_descriptor", &Engine::questions_descriptor);
}

}  // namespace paceline
