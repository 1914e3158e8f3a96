// Arenas and the buffers in them, for Python.
#include "memory/arena.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "memory/cache.hpp"
#include "python/bindings.hpp"

namespace paceline {
namespace {

// A piece of an arena that shows itself as a buffer of bytes.
struct PyArenaBuffer {
  std::shared_ptr<Arena> arena;
  std::byte* data;
  std::size_t size;

  PyArenaBuffer(std::shared_ptr<Arena> home, std::size_t bytes)
      : arena(std::move(home)), data(arena->allocate(bytes)), size(bytes) {}
  PyArenaBuffer(const PyArenaBuffer&) = delete;
  PyArenaBuffer& operator=(const PyArenaBuffer&) = delete;
  ~PyArenaBuffer() { arena->release(data); }
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto& buffer = *nb::inst_ptr<PyArenaBuffer>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, buffer.data, static_cast<Py_ssize_t>(buffer.size), 0, flags);
}

}  // namespace

void bind_arena(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};
  nb::class_<PyArenaBuffer>(m, "ArenaBuffer", nb::type_slots(slots));
  nb::class_<Arena>(m, "Arena")
      .def(nb::init<>())
      .def_prop_ro("descriptor", &Arena::descriptor)
      .def_prop_ro("allocated", &Arena::allocated)
      .def(
          "allocate",
          [](const std::shared_ptr<Arena>& self, std::size_t size) { return new PyArenaBuffer(self, size); },
          nb::rv_policy::take_ownership);
  m.def("cache_blocks", [] {
    const Caches& found = caches();
    return std::map<std::string, std::size_t>{
        {"first", found.first}, {"second", found.second}, {"pass", found.pass()}, {"block", found.block()}};
  });
}

}  // namespace paceline
