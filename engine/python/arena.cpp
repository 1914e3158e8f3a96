// Shows arenas, and the buffers in them, to Python.
#include "memory/arena.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <utility>

#include "memory/cache.hpp"
#include "python/bindings.hpp"

namespace paceline {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto& buffer = *nb::inst_ptr<PyArenaBuffer>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, buffer.memory->data(), static_cast<Py_ssize_t>(buffer.memory->bytes()), 0,
                           flags);
}

}  // namespace

void bind_arena(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};
  nb::class_<PyArenaBuffer>(m, "ArenaBuffer", nb::type_slots(slots));
  nb::class_<Arena>(m, "Arena")
      .def(nb::init<>())
      .def_prop_ro("descriptor", &Arena::descriptor)
      .def_prop_ro("allocated", &Arena::allocated)
      .def("allocate", [](const std::shared_ptr<Arena>& self, std::size_t size) {
        auto memory = std::make_shared<ArenaMemory>(self, size);
        self->use_huge_pages(memory->data(), size);
        return PyArenaBuffer{std::move(memory)};
      });
  m.def("cache_blocks", [] {
    const Caches& found = caches();
    return std::map<std::string, std::size_t>{
        {"first", found.first}, {"second", found.second}, {"pass", found.pass()}, {"block", found.block()}};
  });
}

}  // namespace paceline
