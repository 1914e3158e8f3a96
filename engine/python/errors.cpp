#include "python/errors.hpp"

#include <array>
#include <string>
#include <string_view>

namespace nb = nanobind;

namespace paceline {
namespace {

constexpr std::array<const char*, 6> kFields = {"rank", "host", "pid", "operation", "tensor", "group"};

// The exception types, by ErrorKind. They live as long as the interpreter, so nothing here owns them.
std::array<PyObject*, 7> error_types{};

// Words that came from another rank may be no UTF-8.
nb::object text_of(std::string_view words) {
  return nb::steal(PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
}

nb::object exception_of(const Failure& failure) {
  nb::object error = nb::borrow(error_types[static_cast<std::size_t>(failure.kind)])(text_of(failure.what()));
  if (failure.kind == ErrorKind::invalid) return error;
  if (!failure.operation.empty()) error.attr("operation") = text_of(failure.operation);
  if (!failure.tensor.empty()) error.attr("tensor") = text_of(failure.tensor);
  return error;
}

void set_error(const nb::object& error) { PyErr_SetObject(error.type().ptr(), error.ptr()); }

}  // namespace

void bind_errors(nb::module_& m) {
  nb::dict unknown;
  for (const char* field : kFields) unknown[field] = nb::none();
  const auto add = [&](ErrorKind kind, const char* name, PyObject* base, PyObject* members) {
    PyObject* type = PyErr_NewException((std::string("paceline.errors.") + name).c_str(), base, members);
    m.attr(name) = nb::borrow(type);
    return error_types[static_cast<std::size_t>(kind)] = type;
  };
  PyObject* base = add(ErrorKind::none, "CommunicationError", PyExc_RuntimeError, unknown.ptr());
  add(ErrorKind::peer_lost, "PeerLost", base, nullptr);
  add(ErrorKind::mismatch, "Mismatch", base, nullptr);
  add(ErrorKind::timeout, "Timeout", base, nullptr);
  add(ErrorKind::aborted, "Aborted", base, nullptr);
  error_types[static_cast<std::size_t>(ErrorKind::invalid)] = PyExc_ValueError;
  error_types[static_cast<std::size_t>(ErrorKind::refused)] = base;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& failure) {
      set_error(exception_of(failure));
    }
  });
}

void raise(const Failure& failure, const nb::object& failed, bool alone) {
  // Ctrl-C reaches all ranks of a terminal, and one of them tells the others of its own before they have seen theirs.
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  const nb::object error = exception_of(failure);
  const bool has_failed = failure.kind != ErrorKind::invalid && failure.kind != ErrorKind::refused;
  if (has_failed && !failed.is_none()) failed(error, text_of(failure.culprit), alone);
  set_error(error);
  throw nb::python_error();
}

}  // namespace paceline
