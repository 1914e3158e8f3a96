// Looks at arrays by Python's buffer protocol, without going through any Python code.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>

#include "types/elements.hpp"

namespace paceline {

// Holds on to the memory of a Python object for as long as it lives. To make and to destroy it needs the GIL.
class PythonBuffer {
 public:
  // The buffer is false, and no Python error is set, if the object shows no contiguous memory of a known element type.
  PythonBuffer(nanobind::handle object, bool writable);
  ~PythonBuffer();
  PythonBuffer(const PythonBuffer&) = delete;
  PythonBuffer& operator=(const PythonBuffer&) = delete;

  explicit operator bool() const { return dtype_.has_value(); }
  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  std::size_t count() const { return static_cast<std::size_t>(view_.len / view_.itemsize); }
  DType dtype() const { return *dtype_; }
  bool divides_by(std::size_t blocks) const { return count() % blocks == 0; }

 private:
  Py_buffer view_{};
  std::optional<DType> dtype_;
};

}  // namespace paceline
