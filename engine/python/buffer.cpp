#include "python/buffer.hpp"

namespace paceline {
namespace {

// These are the struct module's letters for native types; `size` tells sizes that depend on the platform.
std::optional<DType> dtype_of(const char* format, Py_ssize_t size) {
  if (format == nullptr || format[0] == 0 || format[1] != 0) return std::nullopt;
  switch (format[0]) {
    case 'e': return DType::float16;
    case 'f': return DType::float32;
    case 'd': return DType::float64;
    case 'b': return DType::int8;
    case 'B': return DType::uint8;
    case '?': return DType::boolean;
    case 'i':
    case 'l':
    case 'q':
      if (size == 8) return DType::int64;
      if (size == 4) return DType::int32;
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

PythonBuffer::PythonBuffer(nanobind::handle object, bool writable) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    PyErr_Clear();
    return;
  }
  dtype_ = dtype_of(view_.format, view_.itemsize);
}

PythonBuffer::~PythonBuffer() { PyBuffer_Release(&view_); }

}  // namespace paceline
