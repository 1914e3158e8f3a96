// Reads the values of torch's futures where torch's C++ does, at the end of a backward pass.
#include <nanobind/nanobind.h>

#include "python/bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace paceline {
namespace {

bool only_of(nb::handle list, nb::handle type) {
  auto* const wanted = reinterpret_cast<PyTypeObject*>(type.ptr());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.ptr()); ++i) {
    if (!PyType_IsSubtype(Py_TYPE(PyList_GET_ITEM(list.ptr(), i)), wanted)) return false;
  }
  return true;
}

// The failure is raised later: `read` asks for that. It cannot outside of a backward pass.
nb::object results_of(nb::handle failure) {
  try {
    nb::object results = failure.attr("results");
    if (!PyList_GET_SIZE(results.ptr())) return {};
    failure.attr("read")();
    return results;
  } catch (nb::python_error&) {
    return {};
  }
}

}  // namespace

void bind_future_values(nb::module_& m) {
  m.def(
      "tensors_reader",
      [](nb::type_object tensor, nb::type_object failure, nb::callable otherwise) {
        return nb::cpp_function([tensor, failure, otherwise](nb::handle value) -> nb::object {
          if (PyList_CheckExact(value.ptr()) && only_of(value, tensor)) return nb::borrow(value);
          if (value.type().is(failure))
            if (nb::object results = results_of(value)) return results;
          return otherwise(value);
        });
      },
      "tensor"_a, "failure"_a, "otherwise"_a);
}

}  // namespace paceline
